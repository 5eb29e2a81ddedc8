/* A program that knows its own truth: 3 copies of 1000 bytes, one that fails, 50 queries. */
#include <stddef.h>
#include <stdio.h>

typedef struct NAME_stream_object *NAME_stream;
int NAME_init(void);
int NAME_copy(void *to, const void *from, size_t bytes, NAME_stream stream);
int NAME_query(NAME_stream stream);

int main(void) {
  static char from[1000], to[1000];
  int failed = NAME_init() != 0;
  for (int i = 0; i < 3; i++) failed += NAME_copy(to, from, sizeof from, NULL) != 0;
  failed += NAME_copy(NULL, from, sizeof from, NULL) != 0;
  for (int i = 0; i < 50; i++) NAME_query(NULL);
  printf("%d failed\n", failed);
  return 0;
}
