// ReadStatistics' two forms. The binary is damaged behind its digest: the target puts a header that
// fits in front of what it is given, unless that has one.
#include <nlohmann/json.hpp>

#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/stats/statistics_file.h"
#include "tests/fuzz/target.h"
#include "tests/libshard/stats/sample.h"

namespace {

constexpr const char* kWhere = "damaged.stats";
constexpr size_t kHeaderBytes = 36;

std::vector<std::string> Seeds() {
  const shard::Statistics statistics = shard::SampleStatistics();
  return {shard::WriteJson(shard::StatisticsToJson(statistics)),
          shard::StatisticsToBinary(statistics).substr(kHeaderBytes)};
}

std::string WithHeader(std::string_view payload) {
  std::string file(shard::kStatisticsMagic);
  shard::AppendLe(file, shard::kStatisticsVersion);
  shard::AppendLe(file, uint64_t{payload.size()});
  const std::string hex = shard::Xxh3Hex(std::as_bytes(std::span(payload)));
  for (size_t i = 0; i < hex.size(); i += 2) {
    file += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return file.append(payload);
}

shard::Result<shard::Statistics> Read(std::string_view input) {
  if (!input.starts_with('{')) {
    const bool whole = input.starts_with(shard::kStatisticsMagic);
    const std::string file = whole ? std::string(input) : WithHeader(input);
    return shard::StatisticsFromBinary(kWhere, std::as_bytes(std::span(file)));
  }
  SHARD_TRY(const shard::Json document, shard::ParseJson(kWhere, input));
  return shard::StatisticsFromJson(kWhere, document);
}

std::string Check(std::string_view input) {
  const auto statistics = Read(input);
  if (!statistics) return fuzz::ErrorProblem(statistics.error(), kWhere);
  const std::string again = shard::StatisticsToBinary(*statistics);
  const auto read = shard::StatisticsFromBinary(kWhere, std::as_bytes(std::span(again)));
  if (!read) return shard::Cat("refused after writing: ", read.error().message);
  return *read == *statistics ? "" : "other statistics after writing";
}

constexpr fuzz::Target kTarget{Check, Seeds};

}  // namespace

FUZZ_JSON_TARGET(FuzzStatistics, kTarget)
