/* A library that calls what it is given: loaded and unloaded by walks.cpp. */
void through(void (*function)(void)) {
  volatile char room[64];
  room[0] = 1;
  function();
  room[1] = room[0];
}
