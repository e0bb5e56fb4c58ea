// Every encoder and decoder of AllFormats(), given arbitrary bytes: as blocks, as values, and as
// values with an importance. The first byte of the input chooses the format.
#include <cstring>

#include "quant/format.h"
#include "tests/fuzz/target.h"

namespace quant_target {

using quant::Format;

// Whole blocks of `bytes` unchanged; the remaining bytes are dropped.
std::string DecodeProblem(const Format& format, std::string_view bytes) {
  const size_t blocks = bytes.size() / format.block_bytes;
  std::vector<float> values(blocks * format.block_values);
  const auto whole = std::as_bytes(std::span(bytes)).first(blocks * format.block_bytes);
  format.decode(whole, values);
  std::vector<float> again(values.size());
  format.decode(whole, again);
  const bool same = values.empty() ||
                    std::memcmp(values.data(), again.data(), values.size() * sizeof(float)) == 0;
  return same ? "" : moepack::Cat(format.name, ": two decodings differ");
}

std::vector<float> WholeBlocks(const Format& format, std::string_view bytes) {
  const size_t count = bytes.size() / sizeof(float);
  std::vector<float> values(count - count % format.block_values);
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// The bytes of `values`, encoded twice over different earlier contents of the output.
std::string EncodeProblem(const Format& format, std::span<const float> values,
                          std::span<const float> importance) {
  const size_t bytes = *format.BytesFor(values.size());
  std::vector<std::byte> first(bytes), second(bytes, std::byte{0xff});
  format.encode(values, importance, first);
  format.encode(values, importance, second);
  if (first != second) return moepack::Cat(format.name, ": two encodings differ");
  std::vector<float> decoded(values.size());
  format.decode(first, decoded);
  return "";
}

std::string CheckFormat(const Format& format, std::string_view bytes) {
  std::string problem = format.decode == nullptr ? "" : DecodeProblem(format, bytes);
  if (!problem.empty() || format.encode == nullptr) return problem;
  const std::vector<float> values = WholeBlocks(format, bytes);
  problem = EncodeProblem(format, values, {});
  if (!problem.empty()) return problem;
  const std::vector<float> importance(values.rbegin(), values.rend());
  return EncodeProblem(format, values, importance);
}

std::string Check(std::string_view input) {
  if (input.empty()) return "";
  const std::span<const Format> formats = quant::AllFormats();
  const auto pick = static_cast<unsigned char>(input.front());
  return CheckFormat(formats[pick % formats.size()], input.substr(1));
}

std::string FloatsAsBytes(size_t count, float scale) {
  std::string bytes(count * sizeof(float), '\0');
  for (size_t i = 0; i < count; ++i) {
    const float value = scale * (static_cast<float>(i * 37 % 101) / 50 - 1);
    std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(float));
  }
  return bytes;
}

// One block of the largest kind for each format, at an ordinary and at two extreme scales.
std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (size_t i = 0; i < quant::AllFormats().size(); ++i) {
    for (const float scale : {0.05f, 1e-38f, 1e38f}) {
      seeds.push_back(static_cast<char>(i) + FloatsAsBytes(256, scale));
    }
  }
  return seeds;
}

constexpr fuzz::Target kTarget{Check, Seeds, 5'000};

}  // namespace quant_target

FUZZ_TARGET(FuzzQuant, quant_target::kTarget)
