// ReadStatistics in both forms. Most damage to frames is found by their checksums, so the JSON is
// damaged on its own.
#include "libshard/base/files/memory_tree.h"
#include "libshard/stats/statistics_file.h"
#include "tests/fuzz/target.h"
#include "tests/libshard/stats/sample.h"

namespace statistics_target {

constexpr const char* kWhere = "damaged.stats";
constexpr const char* kForms[] = {"s.json", "s.json.zst"};

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const char* form : kForms)
    seeds.push_back(moepack::StatisticsBytes(form, moepack::SampleStatistics()));
  return seeds;
}

moepack::Result<moepack::Statistics> Read(std::string_view input) {
  return moepack::ReadStatistics(moepack::MemorySource(kWhere, std::string(input)));
}

std::string Check(std::string_view input) {
  const auto statistics = Read(input);
  if (!statistics) return fuzz::ErrorProblem(statistics.error(), kWhere);
  for (const char* form : kForms) {
    const auto read = Read(moepack::StatisticsBytes(form, *statistics));
    if (!read) return moepack::Cat("refused after writing: ", read.error().message);
    if (!(*read == *statistics)) return "other statistics after writing";
  }
  return "";
}

constexpr fuzz::Target kTarget{Check, Seeds};

}  // namespace statistics_target

FUZZ_JSON_TARGET(FuzzStatistics, statistics_target::kTarget)
