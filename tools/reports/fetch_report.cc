#include "tools/reports/fetch_report.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"

namespace moepack::cli {
namespace {

constexpr uint64_t kMostSample = 4u << 20;

double SecondsOf(const FetchReport& report) {
  return static_cast<double>(report.bytes) / report.rate;
}

}  // namespace

Result<FetchReport> MeasureFetch(const std::vector<SourceFile>& sources,
                                 const FetchEstimate& estimate) {
  FetchReport report{estimate.bytes, estimate.requests};
  if (estimate.bytes == 0) return report;
  const SourceFile& file = sources[estimate.sample.file];
  SHARD_TRY(const ByteSourcePtr source, OpenUnchanged(file));
  std::vector<std::byte> sample(std::min(estimate.sample.bytes, kMostSample));
  const uint64_t before = file.tree->traffic().value_or(Traffic()).bytes;
  const auto start = std::chrono::steady_clock::now();
  SHARD_CHECK(source->ReadAt(estimate.sample.offset, sample));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  // Less than was requested if the header had already fetched some of it.
  report.sample_bytes = file.tree->traffic().value_or(Traffic()).bytes - before;
  if (report.sample_bytes > 0 && seconds.count() > 0)
    report.rate = static_cast<double>(report.sample_bytes) / seconds.count();
  return report;
}

std::string FetchText(const FetchReport& report) {
  if (report.bytes == 0) return "";
  std::string text = Cat("would fetch ", ExactBytes(report.bytes), " of weights in ",
                         Plural(report.requests, "request"));
  if (report.rate > 0) {
    text +=
        Cat(", about ", FormatElapsed(SecondsOf(report)), " at ",
            FormatRate(report.sample_bytes, static_cast<double>(report.sample_bytes) / report.rate),
            ", the rate at which one connection brought ", FormatBytes(report.sample_bytes));
  }
  return text + "\n";
}

Json FetchJson(const FetchReport& report) {
  if (report.bytes == 0) return nullptr;
  Json out = {{"bytes", report.bytes}, {"requests", report.requests}};
  out["rate"] = report.rate > 0 ? Json(report.rate) : Json(nullptr);
  out["seconds"] = report.rate > 0 ? Json(SecondsOf(report)) : Json(nullptr);
  return out;
}

}  // namespace moepack::cli
