// Both forms of ReadStatistics. The binary is damaged after its digest: the target puts a matching
// header before its input, unless the input has one.
#include <nlohmann/json.hpp>

#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/stats/statistics_file.h"
#include "tests/fuzz/target.h"
#include "tests/libshard/stats/sample.h"

namespace statistics_target {

constexpr const char* kWhere = "damaged.stats";
constexpr size_t kHeaderBytes = 36;

std::vector<std::string> Seeds() {
  const moepack::Statistics statistics = moepack::SampleStatistics();
  return {moepack::WriteJson(moepack::StatisticsToJson(statistics)),
          moepack::StatisticsToBinary(statistics).substr(kHeaderBytes)};
}

std::string WithHeader(std::string_view payload) {
  std::string file(moepack::kStatisticsMagic);
  moepack::AppendLe(file, moepack::kStatisticsVersion);
  moepack::AppendLe(file, uint64_t{payload.size()});
  const std::string hex = moepack::Xxh3Hex(std::as_bytes(std::span(payload)));
  for (size_t i = 0; i < hex.size(); i += 2) {
    file += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return file.append(payload);
}

moepack::Result<moepack::Statistics> Read(std::string_view input) {
  if (!input.starts_with('{')) {
    const bool whole = input.starts_with(moepack::kStatisticsMagic);
    const std::string file = whole ? std::string(input) : WithHeader(input);
    return moepack::StatisticsFromBinary(kWhere, std::as_bytes(std::span(file)));
  }
  SHARD_TRY(const moepack::Json document, moepack::ParseJson(kWhere, input));
  return moepack::StatisticsFromJson(kWhere, document);
}

std::string Check(std::string_view input) {
  const auto statistics = Read(input);
  if (!statistics) return fuzz::ErrorProblem(statistics.error(), kWhere);
  const std::string again = moepack::StatisticsToBinary(*statistics);
  const auto read = moepack::StatisticsFromBinary(kWhere, std::as_bytes(std::span(again)));
  if (!read) return moepack::Cat("refused after writing: ", read.error().message);
  return *read == *statistics ? "" : "other statistics after writing";
}

constexpr fuzz::Target kTarget{Check, Seeds};

}  // namespace statistics_target

FUZZ_JSON_TARGET(FuzzStatistics, statistics_target::kTarget)
