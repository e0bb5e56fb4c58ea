#include "libshard/import/import.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "libshard/base/digest.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/zstd.h"
#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

#define SHARD_LIST_IMPORTER(name) &name,
constexpr const Importer* kImporters[] = {SHARD_IMPORTERS(SHARD_LIST_IMPORTER)};
#undef SHARD_LIST_IMPORTER

std::vector<std::string> FormatNames() {
  std::vector<std::string> names;
  for (const Importer* importer : kImporters) names.emplace_back(importer->name);
  return names;
}

Result<const Importer*> Recognize(const ByteSource& file) {
  SHARD_TRY(const std::string head, TextHead(file, kImportHead));
  const auto* const found =
      std::find_if(std::begin(kImporters), std::end(kImporters),
                   [&](const Importer* importer) { return importer->looks_like(head); });
  return found == std::end(kImporters) ? nullptr : *found;
}

Result<ByteSourcePtr> OpenStatistics(const std::string& path) {
  SHARD_TRY(const Source source, LocalSource(path));
  if (source.file.empty())
    return Error{Code::kInvalidArgument,
                 Cat(path, ": expected a file of statistics, found a directory")};
  return source.tree->Open(source.file);
}

// Most formats are small, and their readers do not decompress.
Result<const Importer*> Readable(const ByteSource& file, const Importer* importer) {
  SHARD_TRY(const bool zstd, IsZstd(file));
  if (!zstd || importer->reads_zstd) return importer;
  return Error{Code::kUnsupported,
               Cat(file.name(), ": expected ", importer->name, " as it is, found it in zstd"),
               Cat("run zstd -d ", ShellWord(PathArgument(file.name())), " and name its output")};
}

Result<const Importer*> Choose(const ByteSource& file, const ImportOptions& options) {
  if (!options.format.empty()) {
    const Importer* importer = FindImporter(options.format);
    if (importer != nullptr) return Readable(file, importer);
    return NotOneOf("format of statistics", FormatNames(), options.format);
  }
  SHARD_TRY(const Importer* const recognized, Recognize(file));
  if (recognized != nullptr) return Readable(file, recognized);
  return Error{Code::kUnsupported,
               Cat(file.name(),
                   ": expected statistics of experts, found a file of no format that "
                   "is known"),
               Cat("known are ", Join(FormatNames(), ", "), "; the format can be named")};
}

Result<std::string> DigestOfFile(const ByteSource& file) {
  Xxh3 digest;
  std::vector<std::byte> step(ScanStep(file));
  for (uint64_t at = 0; at < file.size();) {
    const auto part = std::span(step).first(std::min<uint64_t>(file.size() - at, step.size()));
    SHARD_CHECK(file.ReadAt(at, part));
    digest.Update(part);
    at += part.size();
  }
  return digest.Hex();
}

Status CheckSessionNames(const std::string& where, const ExpertScores& scores) {
  std::set<std::string_view> names;
  for (const SessionScores& session : scores.sessions) {
    if (names.insert(session.name).second) continue;
    return Error{Code::kCorrupt,
                 Cat(where, ": session ", Quoted(session.name), ": expected once, found twice")};
  }
  return Ok();
}

// A layer without any scores means that nothing was measured there, not that its experts are equal.
Status CheckNoEmptyLayer(const std::string& where, const ExpertScores& scores) {
  const std::vector<double> sums = SumOfScores(scores);
  size_t offset = 0;
  for (const MoeLayerShape& layer : scores.layers) {
    const auto first = sums.begin() + static_cast<std::ptrdiff_t>(offset);
    const bool any =
        std::any_of(first, first + layer.expert_count, [](double sum) { return sum > 0; });
    if (!any)
      return Error{Code::kCorrupt,
                   Cat(where, ": layer ", layer.layer,
                       ": expected an expert with a score above 0, found none"),
                   "no token reached the layer: measure again with all layers"};
    offset += layer.expert_count;
  }
  return Ok();
}

// If the number of tokens is known, each may choose any expert; otherwise the choices are counted.
void WarnOfFewTokens(const std::string& where, ExpertScores& scores) {
  uint64_t tokens = 0;
  bool known = true;
  for (const SessionScores& session : scores.sessions) {
    known = known && session.tokens > 0;
    tokens += session.tokens;
  }
  uint32_t expert_count = 0;
  for (const MoeLayerShape& layer : scores.layers)
    expert_count = std::max(expert_count, layer.expert_count);
  if (!known && scores.basis != ScoreBasis::kCount) return;
  if (!known) {
    const std::vector<double> sums = SumOfScores(scores);
    double selections = 0;
    for (uint32_t e = 0; e < scores.layers.front().expert_count; ++e) selections += sums[e];
    if (selections >= expert_count) return;  // it may exceed the range of an integer
    tokens = static_cast<uint64_t>(selections);
  }
  if (tokens >= expert_count) return;
  scores.warnings.push_back(Cat(where, ": ", Plural(tokens, known ? "token" : "selection"),
                                known ? "" : " in a layer", " for ", Plural(expert_count, "expert"),
                                ": most look unused because too little was read"));
}

Error OtherSource(const std::string& where, const char* what, const std::string& expected,
                  const std::string& found) {
  return {Code::kMismatch, Cat(where, ": ", what, ": expected ", expected, ", found ", found),
          "only statistics of one model and one kind can be joined"};
}

// Layers are equal, except that one of them may not know its top-k.
Status JoinLayers(const std::string& where, const std::vector<MoeLayerShape>& other,
                  std::vector<MoeLayerShape>& into) {
  if (other.size() != into.size())
    return OtherSource(where, "layers", Cat(into.size()), Cat(other.size()));
  for (size_t i = 0; i < into.size(); ++i) {
    const MoeLayerShape &a = other[i], &b = into[i];
    if (a.layer != b.layer) return OtherSource(where, "layer", Cat(b.layer), Cat(a.layer));
    const std::string layer = Cat("layer ", b.layer, ": ");
    if (a.expert_count != b.expert_count)
      return OtherSource(where, (layer + "experts").c_str(), Cat(b.expert_count),
                         Cat(a.expert_count));
    if (a.top_k > 0 && b.top_k > 0 && a.top_k != b.top_k)
      return OtherSource(where, (layer + "top-k").c_str(), Cat(b.top_k), Cat(a.top_k));
    into[i].top_k = std::max(a.top_k, b.top_k);
  }
  return Ok();
}

Status JoinIdentity(const std::string& where, const ExpertScores& other, ExpertScores& into) {
  if (other.basis != into.basis)
    return OtherSource(where, "scores",
                       std::string(kScoreBasisNames[static_cast<size_t>(into.basis)]),
                       std::string(kScoreBasisNames[static_cast<size_t>(other.basis)]));
  if (!other.router_digest.empty() && !into.router_digest.empty() &&
      other.router_digest != into.router_digest)
    return OtherSource(where, "router digest", into.router_digest, other.router_digest);
  SHARD_CHECK(JoinLayers(where, other.layers, into.layers));
  if (into.router_digest.empty()) into.router_digest = other.router_digest;
  if (into.format != other.format) into.format = "several";
  into.layer_agnostic = into.layer_agnostic || other.layer_agnostic;
  return Ok();
}

void JoinPairs(const std::string& where, const ExpertScores& other, ExpertScores& into) {
  if (other.co_selection.empty() != into.co_selection.empty()) {
    into.warnings.push_back(
        Cat(where, ": which experts were chosen together is dropped, as only some files say it"));
    into.co_selection.clear();
  }
  for (size_t i = 0; i < into.co_selection.size(); ++i) {
    for (size_t pair = 0; pair < into.co_selection[i].size(); ++pair) {
      uint64_t& sum = into.co_selection[i][pair];
      if (__builtin_add_overflow(sum, other.co_selection[i][pair], &sum)) sum = UINT64_MAX;
    }
  }
}

}  // namespace

std::span<const Importer* const> Importers() { return kImporters; }

const Importer* FindImporter(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kImporters), std::end(kImporters),
                   [&](const Importer* importer) { return importer->name == name; });
  return found == std::end(kImporters) ? nullptr : *found;
}

Result<const Importer*> RecognizeFormat(const std::string& path) {
  SHARD_TRY(const ByteSourcePtr file, OpenStatistics(path));
  return Recognize(*file);
}

Status CheckIsProfile(const std::string& path) {
  SHARD_TRY(const Importer* const found, RecognizeFormat(path));
  if (found == nullptr || found == &kMoepackImporter) return Ok();
  return Error{
      Code::kUnsupported,
      Cat(path, ": expected statistics of moepack profile, found ", found->name),
      "measure with `moepack profile`; `moepack plan --statistics` and `moepack statistics "
      "convert` take files of other tools"};
}

Result<ExpertScores> ReadProfileScores(const std::string& path, std::optional<ScoreBasis> basis) {
  SHARD_CHECK(CheckIsProfile(path));
  ImportOptions options;
  options.basis = basis;
  options.format = kMoepackImporter.name;
  return ReadExpertScores(std::vector<std::string>{path}, options);
}

Result<ExpertScores> ReadExpertScores(const ByteSource& file, const ImportOptions& options) {
  const std::string& where = file.name();
  SHARD_TRY(const Importer* importer, Choose(file, options));
  SHARD_TRY(ExpertScores scores, importer->read(file, options));
  scores.format = importer->name;
  if (!options.pairs) scores.co_selection.clear();
  SHARD_TRY(scores.digest, DigestOfFile(file));
  for (SessionScores& session : scores.sessions) {
    if (session.name.empty()) session.name = Shown(FileName(where));
  }
  SHARD_CHECK(CheckExpertScores(where, scores));
  SHARD_CHECK(CheckSessionNames(where, scores));
  if (!options.model.empty()) {
    LayerCounts layers;
    for (const MoeLayerShape& layer : options.model) layers[layer.layer] = layer.expert_count;
    SHARD_CHECK(CheckScoresFit(where, scores, layers));
  }
  SHARD_CHECK(CheckNoEmptyLayer(where, scores));
  WarnOfFewTokens(where, scores);
  SHARD_CHECK(file.CheckUnchanged());
  return scores;
}

Result<ExpertScores> ReadExpertScores(const std::vector<std::string>& paths,
                                      const ImportOptions& options) {
  std::optional<ExpertScores> joined;
  std::string digests;
  for (const std::string& path : paths) {
    SHARD_TRY(const ByteSourcePtr file, OpenStatistics(path));
    SHARD_TRY(ExpertScores scores, ReadExpertScores(*file, options));
    digests += scores.digest;
    if (!joined) {
      joined = std::move(scores);
    } else {
      SHARD_CHECK(JoinScores(path, std::move(scores), *joined));
    }
  }
  if (paths.size() > 1) joined->digest = Xxh3Hex(std::as_bytes(std::span(digests)));
  return *std::move(joined);
}

Status JoinScores(const std::string& where, ExpertScores other, ExpertScores& into) {
  std::set<std::string_view> names;
  for (const SessionScores& session : into.sessions) names.insert(session.name);
  for (const SessionScores& session : other.sessions) {
    if (!names.contains(session.name)) continue;
    return Error{
        Code::kInvalidArgument,
        Cat(where, ": session ", Quoted(session.name),
            ": expected one that is not there yet, found it a second time"),
        "its tokens would count twice; a file without sessions is one, under its own name"};
  }
  SHARD_CHECK(JoinIdentity(where, other, into));
  JoinPairs(where, other, into);
  for (const auto& [layer, expert_ids] : other.super_experts)
    into.super_experts[layer] = Union(IdsOf(into.super_experts, layer), expert_ids);
  std::move(other.sessions.begin(), other.sessions.end(), std::back_inserter(into.sessions));
  for (std::string& warning : other.warnings) {
    if (std::find(into.warnings.begin(), into.warnings.end(), warning) == into.warnings.end())
      into.warnings.push_back(std::move(warning));
  }
  return Ok();
}

std::vector<MoeLayerShape> MeasuredLayers(const MoeModel& model) {
  std::vector<MoeLayerShape> layers;
  for (const MoeLayer& layer : model.layers()) {
    if (!layer.mtp) layers.push_back({layer.layer, layer.expert_count, layer.top_k});
  }
  return layers;
}

}  // namespace moepack
