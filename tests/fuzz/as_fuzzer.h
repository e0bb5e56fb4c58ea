// A target as a libFuzzer program; the last part of target.h, which alone includes it.
#pragma once

#include <cstdio>
#include <cstring>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Half of the inputs are damaged as in the tests, half as libFuzzer likes; now and then one
// restarts from a seed, so that no corpus directory is needed. A quarter of JSON inputs stay valid
// documents.
#define FUZZ_TARGET(name, target) FUZZ_EITHER_TARGET(name, target, false)
#define FUZZ_JSON_TARGET(name, target) FUZZ_EITHER_TARGET(name, target, true)
#define FUZZ_STRUCTURE_TARGET(name, target) FUZZ_EITHER_TARGET(name, target, false)
#define FUZZ_EITHER_TARGET(name, target, json)                                           \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {              \
    const std::string_view input(reinterpret_cast<const char*>(data), size);             \
    const std::string problem = (target).check(input);                                   \
    if (problem.empty()) return 0;                                                       \
    fprintf(stderr, "%s\n%s\n", problem.c_str(), fuzz::Show(input).c_str());             \
    __builtin_trap();                                                                    \
  }                                                                                      \
  extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, \
                                            unsigned seed) {                             \
    static const std::vector<std::string> seeds = (target).seeds();                      \
    fuzz::Random random(seed);                                                           \
    if (size > 1 && random.Below(2) == 0) return LLVMFuzzerMutate(data, size, max_size); \
    std::vector<std::string> from = {std::string(reinterpret_cast<char*>(data), size)};  \
    if (size <= 1 || random.Below(16) == 0) from = seeds;                                \
    fuzz::JsonMutator documents(from, random.Next());                                    \
    const bool keep = (json) && documents.has_seeds() && random.Below(2) == 0;           \
    std::string text;                                                                    \
    if ((target).restructure != nullptr && random.Below(3) > 0)                          \
      text = (target).restructure(from[random.Below(from.size())], random.Next());       \
    else                                                                                 \
      text = keep ? documents.Next() : fuzz::Mutator(from, random.Next()).Next();        \
    const size_t kept = std::min(text.size(), max_size);                                 \
    std::memcpy(data, text.data(), kept);                                                \
    return kept;                                                                         \
  }
