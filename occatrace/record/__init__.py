"""Recording: LTTng's daemon and sessions, filters, samplers, ranks, recovery. Meets the store in the run folder only."""
