"""The run folder as a contract: what it holds, who records into it, where the installed parts are."""
