// What bench_timeline compares with: the same slices, written with protozero (Debian's libprotozero-dev) as its manual
// shows: one packet sequence, texts interned, the track named in each event.
//   protozero_timeline INPUT OUTPUT RICH    prints the CPU seconds that the writing took
// INPUT: per track its number of slices, then the columns start, end, name, bytes, block, flow (0: none), all uint64_t.
#include <protozero/pbf_writer.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

namespace {

using Column = std::vector<uint64_t>;
struct Track {
  Column start, end, name, bytes, block, flow;
};

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const bool rich = std::atoi(argv[3]) != 0;
  std::vector<Track> tracks;
  std::ifstream in(argv[1], std::ios::binary);
  for (uint64_t count; in.read(reinterpret_cast<char*>(&count), 8);) {
    tracks.emplace_back();
    Track& t = tracks.back();
    for (Column* c : {&t.start, &t.end, &t.name, &t.bytes, &t.block, &t.flow}) {
      c->resize(count);
      in.read(reinterpret_cast<char*>(c->data()), std::streamsize(8 * count));
    }
  }
  const double begin = cpu_seconds();
  std::FILE* file = std::fopen(argv[2], "wb");
  if (!file) return 1;
  std::string buffer;
  std::vector<bool> named(1 << 16), blocked(1 << 16);
  bool first = true;
  for (size_t number = 0; number < tracks.size(); number++) {
    const Track& t = tracks[number];
    {
      protozero::pbf_writer trace(buffer), packet(trace, 1), track(packet, 60);
      track.add_uint64(1, number + 1);
      track.add_string(2, "queue " + std::to_string(number));
    }
    for (size_t i = 0; i < t.start.size(); i++) {
      {
        protozero::pbf_writer trace(buffer), packet(trace, 1);
        packet.add_uint32(10, 1);
        packet.add_uint64(8, t.start[i]);
        packet.add_uint32(13, first ? 3 : 2);
        const bool new_name = !named[t.name[i]], new_block = rich && !blocked[t.block[i]];
        if (new_name || new_block || first) {
          protozero::pbf_writer interned(packet, 12);
          if (first) {
            protozero::pbf_writer entry(interned, 1);
            entry.add_uint64(1, 1);
            entry.add_string(2, "kernel");
          }
          if (new_name) {
            protozero::pbf_writer entry(interned, 2);
            entry.add_uint64(1, t.name[i] + 1);
            entry.add_string(2, "kernel_" + std::to_string(t.name[i]));
            named[t.name[i]] = true;
          }
          if (first && rich) {
            for (uint64_t a : {1, 2}) {
              protozero::pbf_writer entry(interned, 3);
              entry.add_uint64(1, a);
              entry.add_string(2, a == 1 ? "bytes" : "block");
            }
          }
          if (new_block) {
            protozero::pbf_writer entry(interned, 29);
            entry.add_uint64(1, t.block[i] + 1);
            entry.add_string(2, std::to_string(32u << t.block[i]) + " × 1 × 1");
            blocked[t.block[i]] = true;
          }
          first = false;
        }
        protozero::pbf_writer event(packet, 11);
        event.add_uint64(3, 1);
        event.add_uint32(9, 1);
        event.add_uint64(10, t.name[i] + 1);
        event.add_uint64(11, number + 1);
        if (rich) {
          {
            protozero::pbf_writer argument(event, 4);
            argument.add_uint64(1, 1);
            argument.add_uint64(3, t.bytes[i]);
          }
          {
            protozero::pbf_writer argument(event, 4);
            argument.add_uint64(1, 2);
            argument.add_uint64(17, t.block[i] + 1);
          }
          if (t.flow[i]) event.add_fixed64(47, t.flow[i]);
        }
      }
      {
        protozero::pbf_writer trace(buffer), packet(trace, 1);
        packet.add_uint32(10, 1);
        packet.add_uint64(8, t.end[i]);
        protozero::pbf_writer event(packet, 11);
        event.add_uint32(9, 2);
        event.add_uint64(11, number + 1);
      }
      if (buffer.size() > (1u << 20)) {
        std::fwrite(buffer.data(), 1, buffer.size(), file);
        buffer.clear();
      }
    }
  }
  std::fwrite(buffer.data(), 1, buffer.size(), file);
  std::fclose(file);
  std::printf("%.6f\n", cpu_seconds() - begin);
}
