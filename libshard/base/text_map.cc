#include "libshard/base/text_map.h"

#include <xxhash.h>

#include <random>

namespace moepack {
namespace {

uint64_t Seed() {
  static const uint64_t seed = [] {
    std::random_device source;
    return uint64_t{source()} << 32 | source();
  }();
  return seed;
}

}  // namespace

KeyHash HashOf(std::string_view key) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(key.data(), key.size(), Seed());
  return {hash.high64, hash.low64};
}

}  // namespace moepack
