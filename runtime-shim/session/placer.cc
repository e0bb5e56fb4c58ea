#include "runtime-shim/session/placer.h"

#include <algorithm>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "runtime-shim/load/opened_parts.h"
#include "runtime-shim/model/bos_token.h"
#include "runtime-shim/session/model_tokenizer.h"

namespace moepack::runtime {
namespace {

// A text is cut before it is encoded, because only its first tokens count: no token of a known
// tokenizer is longer than this.
constexpr size_t kMostTokenBytes = 1024;

}  // namespace

std::span<const uint32_t> WithoutBos(std::span<const uint32_t> tokens,
                                     std::optional<uint32_t> bos) {
  const bool starts = bos && !tokens.empty() && tokens.front() == *bos;
  return starts ? tokens.subspan(1) : tokens;
}

Result<std::unique_ptr<Placer>> Placer::Open(const std::string& distribution) {
  SHARD_TRY(const moepack::Source source, LocalSource(distribution));
  Split split;
  split.tree = source.tree;
  split.path = source.named.string();
  const Result<bool> there =
      source.file.empty() ? split.tree->Has(manifest::kManifestFile) : Result<bool>(false);
  if (!there) return there.error();
  if (!*there)
    return Error{Code::kInvalidArgument,
                 Cat(split.path, ": expected a distribution, found no ", manifest::kManifestFile)};
  SHARD_TRY(split.manifest, manifest::ReadManifest(*split.tree));
  if (!split.manifest.plan.placement)
    return Error{Code::kInvalidArgument,
                 Cat(split.path, ": placement: expected a table, found none"),
                 "a plan made with --statistics has one, if the statistics count tokens"};
  std::unique_ptr<Placer> placer(new Placer);
  placer->table_ = *split.manifest.plan.placement;
  const Result<ModelMetadata> metadata = ReadModelMetadata(split);
  if (!metadata) {
    placer->tokenizer_ = metadata.error();
    return placer;
  }
  placer->bos_ = BosToken(metadata->keys);
  placer->tokenizer_ = OpenTokenizer(split.path, metadata->keys, metadata->no_tokenizer);
  return placer;
}

Result<const Tokenizer*> Placer::tokenizer() const {
  if (!tokenizer_) return tokenizer_.error();
  return tokenizer_->get();
}

Result<PlacementAnswer> Placer::Place(std::span<const uint32_t> tokens) const {
  if (tokens.empty()) return Error{Code::kInvalidArgument, "session: give at least one token"};
  return moepack::Place(table_, WithoutBos(tokens, bos_));
}

Result<PlacementAnswer> Placer::Place(std::string_view text) const {
  SHARD_TRY(const Tokenizer* tokenizer, this->tokenizer());
  const size_t most = (size_t{table_.prefix_tokens} + 1) * kMostTokenBytes;
  SHARD_TRY(const std::vector<uint32_t> tokens,
            tokenizer->Encode(WholeCharacters(text, most), Tokenizer::Options()));
  return Place(tokens);
}

}  // namespace moepack::runtime
