// TokenizerFiles and ReadSpecialTokens: one document whose members are the files around a
// tokenizer.
#include "libshard/convert/tokenizers/special_tokens.h"

#include <nlohmann/json.hpp>

#include "libshard/base/files/memory_tree.h"
#include "libshard/base/text/text.h"
#include "tests/fuzz/target.h"

namespace special_tokens_target {

constexpr uint32_t kTokens = 32;  // rows of the embedding
constexpr const char* kFiles[] = {"tokenizer.json", "tokenizer_config.json", "added_tokens.json"};

std::vector<std::string> Seeds() {
  return {R"({"tokenizer.json": {"added_tokens": [{"id": 1, "content": "<s>", "special": true},
              {"id": 2, "content": "</s>", "special": true}, {"id": 3, "content": "<sep>"}],
              "post_processor": {"type": "Sequence", "processors": [{"type": "TemplateProcessing",
              "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}},
              {"SpecialToken": {"id": "</s>"}}], "pair": [{"SpecialToken": {"id": "<s>"}},
              {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}},
              {"Sequence": {"id": "B"}}, {"SpecialToken": {"id": "</s>"}}]}]},
              "model": {"type": "BPE", "vocab": {}}},
              "tokenizer_config.json": {"bos_token": "<s>", "eos_token": {"content": "</s>"},
              "add_bos_token": true, "add_prefix_space": false},
              "config.json": {"bos_token_id": 1, "eos_token_id": [2], "pad_token_id": 9}})",
          R"({"tokenizer_config.json": {"added_tokens_decoder": {"4": {"content": "<|im_end|>",
              "special": true}, "5": {"content": "<|x|>"}}, "unk_token": "<unk>"},
              "added_tokens.json": {"<a>": 6, "<b>": 7}, "config.json": {"eos_token_id": 4}})"};
}

std::string Check(std::string_view input) {
  const auto document = moepack::ParseJson("damaged", input);
  if (!document || !document->is_object()) return "";
  const auto text = [&](const char* file) {
    return document->contains(file) ? (*document)[file].dump() : std::string();
  };
  const auto tree = std::make_shared<moepack::MemoryTree>("damaged");
  for (const char* file : kFiles)
    if (!text(file).empty()) tree->Add(file, text(file));
  const auto files = moepack::TokenizerFiles::Read(tree);
  if (!files) return fuzz::ErrorProblem(files.error(), "token");
  const std::string config_text = text("config.json");
  const auto config =
      moepack::HfConfig::Parse("config.json", config_text.empty() ? "{}" : config_text);
  if (!config) return fuzz::ErrorProblem(config.error(), "config.json");
  auto special = moepack::ReadSpecialTokens(*files, *config, kTokens);
  if (!special) return fuzz::ErrorProblem(special.error(), "token");
  SetByText(*files, {{"eot", "<|im_end|>"}, {"eom", "<a>"}}, kTokens, *special);
  for (const auto& [kind, id] : special->ids)
    if (id >= kTokens) return "an id without a row: " + kind;
  moepack::GgufMetadata metadata;
  AddSpecialTokens(*special, metadata);
  (void)AddSpacePrefix(*files, {}, metadata).has_value();
  return "";
}

constexpr fuzz::Target kTarget{Check, Seeds, 3000};

}  // namespace special_tokens_target

FUZZ_JSON_TARGET(FuzzSpecialTokens, special_tokens_target::kTarget)
