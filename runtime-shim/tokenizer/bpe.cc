#include "runtime-shim/tokenizer/bpe.h"

#include <utility>

#include "libshard/base/text/byte_alphabet.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/tokenizer/merges.h"
#include "runtime-shim/tokenizer/pre_tokenizer.h"

namespace moepack::runtime {
namespace {

// llama.cpp's defaults, for files that name none.
constexpr uint32_t kDefaultSpecial = 11;

class Bpe : public Tokenizer {
 public:
  Bpe(TokenTable table, PreTokenizer words, Merges merges)
      : Tokenizer(std::move(table)), words_(std::move(words)), merges_(std::move(merges)) {}

 private:
  Status EncodeText(std::string_view text, bool, std::vector<uint32_t>& ids) const override {
    SHARD_TRY(const auto words, words_.Split(text));
    for (const std::string_view word : words) {
      if (words_.traits().whole_words) {
        if (const auto whole = table().Find(SpellBytes(word))) {
          ids.push_back(*whole);
          continue;
        }
      }
      for (const uint32_t symbol : merges_.Apply(word)) Append(symbol, ids);
    }
    return Ok();
  }

  // A symbol that is not a token is replaced by the tokens of the bytes of its spelling, as far as
  // they exist; the rest is lost. Vocabularies with the whole alphabet have a token for everything.
  void Append(uint32_t symbol, std::vector<uint32_t>& ids) const {
    if (symbol < size()) {
      ids.push_back(symbol);
      return;
    }
    for (const char& c : merges_.text(symbol)) {
      if (const auto token = table().Find(std::string_view(&c, 1))) ids.push_back(*token);
    }
  }

  std::string Bytes(const std::string& text) const override { return UnspellBytes(text); }

  PreTokenizer words_;
  Merges merges_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> OpenBpe(const std::string& path, const GgufMetadata& metadata) {
  const GgufValue* value = metadata.Find("tokenizer.ggml.pre");
  const auto id = metadata.String("tokenizer.ggml.pre");
  if (value != nullptr && !id) {
    return Error{Code::kCorrupt, Cat(path, ": tokenizer.ggml.pre: expected a string, found ",
                                     GgufTypeName(value->type))};
  }
  auto found = PreTokenizer::Find(id.value_or("default"));
  if (!found) return std::move(found).error().Within(path);
  PreTokenizer words = std::move(found).value();
  TokenDefaults defaults{kDefaultSpecial, kDefaultSpecial, words.traits().add_bos};
  if (!words.traits().default_bos) defaults.bos.reset();
  SHARD_TRY(TokenTable table, TokenTable::Read(path, metadata, defaults));
  SHARD_TRY(Merges merges, Merges::Read(path, metadata, table, words.traits().needs_merges));
  return std::unique_ptr<Tokenizer>(
      std::make_unique<Bpe>(std::move(table), std::move(words), std::move(merges)));
}

}  // namespace moepack::runtime
