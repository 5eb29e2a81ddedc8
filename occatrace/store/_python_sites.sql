-- In place of the tables of call sites in runs with lines of Python (--python lines): the line of the program's own Python code
-- that made a call stands for the place in the extension module. native_* are the tables as recorded.

CREATE OR REPLACE VIEW call_sites AS
    FROM native_call_sites
    UNION ALL BY NAME
    SELECT process, python_site(leaf) AS site, NULL::UBIGINT AS address, '' AS module, 0::UBIGINT AS "offset", '' AS build_id, function,
           file, line, '' AS why
    FROM own_lines(python_frames) WHERE (process, leaf) IN (SELECT process, frame FROM python_lines);

CREATE OR REPLACE VIEW call_places AS
    FROM native_call_places n ANTI JOIN python_lines l ON l.thread = n.thread AND l.seq = n.seq
    UNION ALL BY NAME
    SELECT process, thread, seq, python_site(frame) AS site FROM python_lines;
