/* Spins for `ns` in Python, and tells how long it really was there; a negative one fails. */
long spin_in_python(long ns);
