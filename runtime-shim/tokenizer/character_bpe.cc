// Source: llama.cpp v0.5.0, src/llama-vocab.cpp (LLAMA_VOCAB_PRE_TYPE_GEMMA4): spaces become
// U+2581, runs of line breaks are separated from the text between them, merges run over characters,
// and a piece that is not a token becomes tokens of its bytes.
#include "runtime-shim/tokenizer/character_bpe.h"

#include <utility>

#include "libshard/base/files/space_mark.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "runtime-shim/tokenizer/merges.h"

namespace moepack::runtime {
namespace {

class CharacterBpe : public Tokenizer {
 public:
  CharacterBpe(TokenTable table, Merges merges)
      : Tokenizer(std::move(table)), merges_(std::move(merges)) {}

 private:
  Status EncodeText(std::string_view text, bool, std::vector<uint32_t>& ids) const override {
    std::string marked;
    for (const char c : text) {
      if (c == ' ') {
        marked += kSpaceMark;
      } else {
        marked += c;
      }
    }
    for (size_t at = 0; at < marked.size();) {
      const bool breaks = marked[at] == '\n';
      const size_t found = breaks ? marked.find_first_not_of('\n', at) : marked.find('\n', at);
      const size_t end = std::min(found, marked.size());
      EncodeRun(std::string_view(marked).substr(at, end - at), breaks, ids);
      at = end;
    }
    return Ok();
  }

  void EncodeRun(std::string_view run, bool breaks, std::vector<uint32_t>& ids) const {
    if (const auto whole = breaks ? table().Find(run) : std::nullopt) {
      ids.push_back(*whole);
      return;
    }
    std::vector<uint32_t> symbols;
    for (size_t at = 0; at < run.size();) {
      const std::string_view character = run.substr(at, FirstCharacter(run.substr(at)).bytes);
      at += character.size();
      if (const auto symbol = merges_.Find(table(), character)) {
        symbols.push_back(*symbol);
        continue;
      }
      // No merge has this character, so the text on its two sides stays separate.
      Flush(symbols, ids);
      AppendBytes(character, ids);
    }
    Flush(symbols, ids);
  }

  void Flush(std::vector<uint32_t>& symbols, std::vector<uint32_t>& ids) const {
    for (const uint32_t symbol : merges_.Apply(std::span<const uint32_t>(symbols))) {
      if (symbol < size()) {
        ids.push_back(symbol);
      } else {
        AppendBytes(merges_.text(symbol), ids);
      }
    }
    symbols.clear();
  }

  // Bytes without a token are lost.
  void AppendBytes(std::string_view piece, std::vector<uint32_t>& ids) const {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    for (const char c : piece) {
      const auto byte = static_cast<unsigned char>(c);
      const std::string text = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
      if (const auto token = table().Find(text)) ids.push_back(*token);
    }
  }

  std::string Bytes(const std::string& text) const override { return MarksToSpaces(text); }

  Merges merges_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> OpenCharacterBpe(const std::string& path,
                                                    const GgufMetadata& metadata) {
  // llama.cpp adds the beginning-of-text token to every text, and knows no ids on its own.
  const TokenDefaults defaults{{}, {}, /*add_bos=*/true, /*always_bos=*/true};
  SHARD_TRY(TokenTable table, TokenTable::Read(path, metadata, defaults));
  SHARD_TRY(Merges merges, Merges::Read(path, metadata, table, /*required=*/true));
  return std::unique_ptr<Tokenizer>(
      std::make_unique<CharacterBpe>(std::move(table), std::move(merges)));
}

}  // namespace moepack::runtime
