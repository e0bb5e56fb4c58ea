// The vocabulary in tokenizer.json and merges.txt, with the chat template: one document whose
// members are the files around a tokenizer. What is read is opened by the runtime as well.
#include <nlohmann/json.hpp>

#include "libshard/base/files/memory_tree.h"
#include "libshard/convert/tokenizers/chat_template.h"
#include "libshard/convert/tokenizers/special_tokens.h"
#include "libshard/convert/tokenizers/tokenizer.h"
#include "runtime-shim/tokenizer/tokenizer.h"
#include "tests/fuzz/target.h"

namespace vocabulary_target {

using moepack::Cat;
using moepack::GgufMetadata;
using moepack::Json;
using moepack::TokenizerFiles;
using moepack::Vocabulary;

constexpr uint32_t kTokens = 16;  // rows of the embedding
constexpr const char* kTree = "damaged";
constexpr const char* kFiles[] = {"tokenizer.json", "tokenizer_config.json", "added_tokens.json",
                                  "merges.txt",     "chat_template.jinja",   "chat_template.json"};

using Reader = moepack::Result<Vocabulary> (*)(const moepack::VocabularyRequest&);
constexpr Reader kReaders[] = {moepack::ReadBpe, moepack::ReadSentencePieceOrBpe,
                               moepack::ReadCharacterBpe};

std::vector<std::string> Seeds() {
  return {R"({"tokenizer.json": {"added_tokens": [{"id": 6, "content": "<|end|>"},
              {"id": 7, "content": "</s>", "special": true}],
              "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
              "model": {"type": "BPE", "merges": [["a", "b"], ["ab", "c"], "a c"],
              "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "ac": 5}}},
              "tokenizer_config.json": {"eos_token": "</s>", "chat_template": [
              {"name": "default", "template": "{{ messages }}"},
              {"name": "tool use", "template": "{{ tools }}"}]}})",
          R"({"tokenizer.json": {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
              "use_regex": true}, "model": {"vocab": {"a": 0, "b": 1, "ab": 3}}},
              "merges.txt": "#version: 0.2\na b\r\n\n", "chat_template.jinja": "{{ x }}",
              "tokenizer_config.json": {}})",
          R"({"tokenizer.json": {"decoder": {"type": "Sequence"}, "model": {"type": "BPE",
              "byte_fallback": true, "merges": ["a b"], "vocab": {"<unk>": 0, "<bos>": 1, "a": 2,
              "b": 3, "ab": 4, "<0x41>": 5}}, "added_tokens": [{"id": 1, "content": "<bos>"}]},
              "tokenizer_config.json": {"bos_token": "<bos>"},
              "chat_template.json": {"chat_template": "{{ y }}"}})"};
}

std::vector<std::string> Refused() {
  return {R"({"tokenizer.json": {"model": {"vocab": {"a": 0, "b": 1}, "merges": ["a b"]}}})",
          R"({"tokenizer.json": {"model": {"vocab": {"a": 0, "b": 0}, "merges": []}}})",
          R"({"tokenizer.json": {"model": {"vocab": {"a": 16}, "merges": []}}})"};
}

// Texts are whole files; anything else is the contents of a JSON file.
moepack::SourceTreePtr TreeOf(const Json& document) {
  const auto tree = std::make_shared<moepack::MemoryTree>(kTree);
  for (const char* file : kFiles) {
    const auto found = document.find(file);
    if (found == document.end()) continue;
    tree->Add(file, found->is_string() ? found->get<std::string>() : found->dump());
  }
  return tree;
}

std::string MergeProblem(const std::string& merge) {
  const size_t space = merge.find(' ');
  const bool pair = space > 0 && space != merge.npos && space + 1 < merge.size() &&
                    merge.find(' ', space + 1) == merge.npos;
  return pair ? "" : "a merge of something else than two pieces: " + merge;
}

std::string VocabularyProblem(const Vocabulary& vocabulary) {
  if (vocabulary.tokens.size() != kTokens || vocabulary.types.size() != kTokens)
    return "another number of tokens than rows";
  if (!vocabulary.scores.empty() && vocabulary.scores.size() != kTokens)
    return "another number of scores than rows";
  for (const moepack::TokenType type : vocabulary.types)
    if (type < moepack::TokenType::kNormal || type > moepack::TokenType::kByte)
      return "a type that there is not";
  for (const std::string& merge : vocabulary.merges)
    if (std::string problem = MergeProblem(merge); !problem.empty()) return problem;
  return CountPadding(vocabulary) <= kTokens ? "" : "more padding than tokens";
}

std::string TemplateProblem(const TokenizerFiles& files, GgufMetadata& metadata) {
  const moepack::Status status = moepack::AddChatTemplate(files, metadata);
  if (!status) return fuzz::ErrorProblem(status.error(), kTree);
  const auto* list = metadata.Find("tokenizer.chat_templates");
  if (list == nullptr) return "";
  const auto names = list->AsStrings();
  if (!names) return "names of templates that are not texts";
  for (const std::string_view name : *names)
    if (!metadata.String(Cat("tokenizer.chat_template.", name))) return "a name without template";
  return "";
}

moepack::Result<GgufMetadata> MetadataOf(const TokenizerFiles& files,
                                         const Vocabulary& vocabulary) {
  SHARD_CHECK(CheckDistinct(kTree, vocabulary));
  SHARD_TRY(const moepack::HfConfig config, moepack::HfConfig::Parse("damaged/config.json", "{}"));
  SHARD_TRY(const moepack::SpecialTokens special,
            moepack::ReadSpecialTokens(files, config, kTokens));
  GgufMetadata metadata;
  AddVocabulary(vocabulary, metadata);
  AddSpecialTokens(special, metadata);
  return metadata;
}

std::string ReadProblem(const TokenizerFiles& files, Reader read) {
  const auto vocabulary = read({files, kTokens, "gpt-2", ""});
  if (!vocabulary) return fuzz::ErrorProblem(vocabulary.error(), kTree);
  if (std::string problem = VocabularyProblem(*vocabulary); !problem.empty()) return problem;
  auto metadata = MetadataOf(files, *vocabulary);
  if (!metadata) return fuzz::ErrorProblem(metadata.error(), kTree);
  // Byte-level BPE needs no tokens that a small vocabulary lacks.
  const auto opened = moepack::runtime::OpenTokenizer(kTree, *metadata);
  if (!opened) return fuzz::ErrorProblem(opened.error(), kTree);
  if ((*opened)->size() != kTokens) return "another number of tokens in the runtime";
  return TemplateProblem(files, *metadata);
}

std::string Check(std::string_view input) {
  const auto document = moepack::ParseJson(kTree, input);
  if (!document || !document->is_object()) return "";
  const auto files = TokenizerFiles::Read(TreeOf(*document));
  if (!files) return fuzz::ErrorProblem(files.error(), kTree);
  for (const Reader read : kReaders)
    if (std::string problem = ReadProblem(*files, read); !problem.empty()) return problem;
  GgufMetadata metadata;
  return TemplateProblem(*files, metadata);
}

// By one of the readers, and then by the runtime unless SentencePiece needs a token for each byte.
bool Accepts(std::string_view input) {
  const auto files = TokenizerFiles::Read(TreeOf(*moepack::ParseJson(kTree, input)));
  return files && std::any_of(std::begin(kReaders), std::end(kReaders), [&](Reader read) {
           const auto vocabulary = read({*files, kTokens, "gpt-2", ""});
           if (!vocabulary) return false;
           const auto metadata = MetadataOf(*files, *vocabulary);
           return metadata && moepack::runtime::OpenTokenizer(kTree, *metadata).has_value();
         });
}

constexpr fuzz::Target kTarget{.check = Check,
                               .seeds = Seeds,
                               .iterations = 2000,
                               .documents = 2000,
                               .accepts = Accepts,
                               .refused = Refused};

}  // namespace vocabulary_target

FUZZ_JSON_TARGET(FuzzVocabulary, vocabulary_target::kTarget)
