/* A fake NAME: as much of the library as the tests call. */
#include <stddef.h>
#include <string.h>

typedef struct NAME_stream_object *NAME_stream;

int NAME_init(void) { return 0; }
int NAME_copy(void *to, const void *from, size_t bytes, NAME_stream stream) {
  (void)stream;
  if (to == NULL || from == NULL) return 7;
  memcpy(to, from, bytes);
  return 0;
}
int NAME_query(NAME_stream stream) { return stream == NULL ? 0 : 1; }
