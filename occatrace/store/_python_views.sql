-- In place of views of _views.sql in runs with lines of Python (--python lines).

-- The line of the program's own Python code that made each call of which it was recorded.
CREATE OR REPLACE TEMP VIEW python_places AS
    SELECT l.thread, l.seq, p.function, p.source, p.through
    FROM python_lines l JOIN own_lines(python_frames) p ON p.process = l.process AND p.leaf = l.frame;

-- Stacks of calls with the frames of Python in them.
CREATE OR REPLACE TEMP VIEW path_texts AS
    SELECT p.thread, p.seq, t.text
    FROM path_calls p LEFT JOIN python_lines l USING (thread, seq)
    JOIN (SELECT process, path, frame, string_agg(name, ' → ' ORDER BY depth) AS text FROM joined_frames GROUP BY ALL) t
        ON t.process = p.process AND t.path = p.path AND t.frame = coalesce(l.frame, 0);
