// ParseTokenizerJson and the search for a pre-tokenizer in its document.
#include <nlohmann/json.hpp>

#include "libshard/convert/tokenizers/tokenizer_bpe.h"
#include "libshard/convert/tokenizers/tokenizer_files.h"
#include "tests/fuzz/target.h"

namespace tokenizer_json_target {

constexpr const char* kPath = "damaged.json";

std::vector<std::string> Seeds() {
  return {
      R"({"model_max_length": 1000000000000000019884624838656, "bos_token": "<s>"})",
      R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
              {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]})",
      R"({"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Isolated", "invert": false})",
      R"([1.5e3, 0e1234567890123456789012, -0.12345678901234567890123, 18446744073709551615,
              "12345678901234567890123\""])"};
}

std::string Check(std::string_view input) {
  const auto document = moepack::ParseTokenizerJson(kPath, input);
  // Text that is already strict JSON must come out unchanged.
  const auto strict = moepack::ParseJson(kPath, input);
  if (strict && (!document || *document != *strict)) return "strict JSON is read otherwise";
  if (!document) return fuzz::ErrorProblem(document.error(), kPath);
  const auto name = moepack::RecognisePreTokenizer(kPath, *document, "qwen2");
  return name ? "" : fuzz::ErrorProblem(name.error(), kPath);
}

constexpr fuzz::Target kTarget{Check, Seeds, 5000};

}  // namespace tokenizer_json_target

FUZZ_TARGET(FuzzTokenizerJson, tokenizer_json_target::kTarget)
