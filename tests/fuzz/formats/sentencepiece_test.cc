// ParseSentencePieces, given arbitrary bytes as tokenizer.model.
#include "fixtures/tokenizer_model.h"
#include "libshard/convert/tokenizers/tokenizer_spm.h"
#include "tests/fuzz/target.h"

namespace sentencepiece_target {

constexpr const char* kPath = "damaged.model";

std::vector<std::string> Seeds() {
  return {fixtures::TokenizerModel({{"<unk>", 0, 2}, {"<s>", 0, 3}, {"a", -1.5f, 1}}),
          fixtures::TokenizerModel(fixtures::SmallVocabulary(512)),
          // Fields that are skipped: 2 as bytes, 15 as a number, 9 and 10 of fixed size.
          std::string("\x12\x02zz\x78\x96\x01\x0a\x03\x0a\x01"
                      "a\x4d\x01\x02\x03\x04\x51\x01\x02\x03\x04\x05\x06\x07\x08",
                      26)};
}

std::string Check(std::string_view input) {
  const auto pieces = moepack::ParseSentencePieces(kPath, input);
  if (!pieces) return fuzz::ErrorProblem(pieces.error(), kPath);
  if (pieces->empty()) return "no pieces";
  // A piece takes at least the two bytes of its tag and length.
  size_t room = 0;
  for (const moepack::SentencePiece& piece : *pieces) {
    if (piece.type < 1 || piece.type > 6) return "a type that there is not";
    room += 2 + piece.text.size();
  }
  return room <= input.size() ? "" : "more text than the file holds";
}

constexpr fuzz::Target kTarget{Check, Seeds, 20'000};

}  // namespace sentencepiece_target

FUZZ_TARGET(FuzzSentencePiece, sentencepiece_target::kTarget)
