/* Which rank of which job this process is, by the variables of its launcher. The list is occatrace/run/ranks.py. */
#include "rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"

/* The number in a variable; -1 where it is unset or something else. */
static int32_t number(const char *name) {
  const char *text = name == NULL ? NULL : getenv(name);
  if (text == NULL || *text == '\0' || strlen(text) > 9) return -1;
  for (const char *c = text; *c != '\0'; c++)
    if (*c < '0' || *c > '9') return -1;
  return (int32_t)strtol(text, NULL, 10);
}

static int32_t first(const char *const *names) {
  int32_t value = -1;
  for (; value < 0 && *names != NULL; names++) value = number(*names);
  return value;
}

void occatrace_find_place(struct occatrace_place *place) {
  *place = (struct occatrace_place){.rank = -1, .size = -1, .local_rank = -1};
  const struct occatrace_launcher *known = NULL;
  for (size_t i = 0; known == NULL && i < sizeof occatrace_launchers / sizeof *occatrace_launchers; i++) {
    const struct occatrace_launcher *l = &occatrace_launchers[i];
    const char *needs = l->needs == NULL ? "+" : getenv(l->needs);
    if (number(l->rank) >= 0 && needs != NULL && *needs != '\0') known = l;
  }
  const int32_t own = number(getenv(OCCATRACE_RANK_VARIABLE)) /* it names the variable */;
  if (known != NULL) {
    place->rank = number(known->rank);
    place->size = first(known->size);
    place->local_rank = first(known->local_rank);
    size_t used = 0;
    for (const char *const *name = known->job; *name != NULL; name++) {
      const char *text = getenv(*name);
      if (text == NULL || *text == '\0' || used >= sizeof place->job - 1) continue;
      const int n = snprintf(place->job + used, sizeof place->job - used, "%s%s", used ? "." : "", text);
      used += n < 0 ? 0 : (size_t)n;
    }
  }
  if (own >= 0) place->rank = own;
  const char *job = getenv(OCCATRACE_JOB_VARIABLE);
  if (job != NULL && *job != '\0') snprintf(place->job, sizeof place->job, "%s", job);
}
