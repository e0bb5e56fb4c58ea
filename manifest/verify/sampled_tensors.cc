#include "manifest/verify/sampled_tensors.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"

namespace moepack::manifest {
namespace {

std::string Lot(const BundleRecord& bundle, const TensorRecord& tensor, uint64_t seed) {
  // The lot depends on seed and names, so the choice does not change with the manifest's order.
  const std::string text = Cat(seed, " ", bundle.file, " ", tensor.name);
  return Xxh3Hex(std::as_bytes(std::span(text)));
}

uint64_t BytesOf(const BundleRecord& bundle) {
  uint64_t bytes = 0;
  for (const TensorRecord& tensor : bundle.tensors) bytes += tensor.bytes;
  return bytes;
}

// Rounded up, without overflow.
uint64_t ShareOf(uint64_t bytes, uint32_t per_mille) {
  return bytes / kWholeSample * per_mille +
         (bytes % kWholeSample * per_mille + kWholeSample - 1) / kWholeSample;
}

}  // namespace

bool IsSampled(const BundleRecord* bundle, uint64_t size, const VerifyOptions& options) {
  return options.sample < kWholeSample && bundle != nullptr && !bundle->tensors.empty() &&
         size > kAlwaysWholeBytes;
}

std::vector<size_t> SampledTensors(const BundleRecord& bundle, const VerifyOptions& options) {
  std::vector<std::pair<std::string, size_t>> lots;
  for (size_t i = 0; i < bundle.tensors.size(); ++i)
    lots.emplace_back(Lot(bundle, bundle.tensors[i], options.seed), i);
  // In the order of lots, a larger share adds tensors to those of a smaller one.
  std::sort(lots.begin(), lots.end());
  const uint64_t wanted = ShareOf(BytesOf(bundle), options.sample);
  std::vector<size_t> chosen;
  uint64_t bytes = 0;
  for (const auto& [lot, index] : lots) {
    // At least one tensor of every large file is read, however small the share.
    if (!chosen.empty() && bytes >= wanted) break;
    bytes += bundle.tensors[index].bytes;
    chosen.push_back(index);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

void NoteSample(const std::vector<CheckedFile>& checked, const VerifyOptions& options,
                VerifyReport& report) {
  if (options.sample >= kWholeSample || !options.digests) return;
  report.rules.push_back("sample-read");
  uint64_t files = 0, tensors = 0, chosen = 0, bytes = 0, read = 0;
  for (const CheckedFile& file : checked) {
    if (!file.readable || !IsSampled(file.bundle, file.size, options)) continue;
    const BundleRecord& bundle = *file.bundle;
    ++files;
    tensors += bundle.tensors.size();
    bytes += BytesOf(bundle);
    const std::vector<size_t> sample = SampledTensors(bundle, options);
    chosen += sample.size();
    for (const size_t index : sample) read += bundle.tensors[index].bytes;
  }
  RuleFindings findings("sample-read", report.findings);
  if (files == 0) return findings.Note("no file is larger than 1 MiB: all of them were read whole");
  findings.Note(Cat("of large files (", files, ") ", chosen, " of ", Plural(tensors, "tensor"),
                    " were read (", FormatBytes(read), " of ", FormatBytes(bytes),
                    ") and compared with their XXH3-128; the SHA-256 of these files was not "
                    "compared"));
}

}  // namespace moepack::manifest
