/* A step on `count` values, in Python; `copies`: on a copy of them. */
double step(double *values, long count, int copies);
