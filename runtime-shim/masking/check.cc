#include "runtime-shim/masking/check.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <system_error>
#include <utility>

#include "libshard/base/files/file.h"
#include "libshard/base/files/temporary_directory.h"
#include "libshard/base/result.h"
#include "libshard/base/text/text.h"
#include "manifest/document/group_range.h"
#include "manifest/document/node_record.h"
#include "manifest/node/assemble.h"
#include "runtime-shim/session/sampler.h"

namespace moepack::runtime {
namespace {

// A directory for temporary files.

// It is created below TMPDIR or /tmp, and the destructor removes it with everything in it.
// Move-only.
class ScratchDirectory {
 public:
  static Result<ScratchDirectory> Make();
  ScratchDirectory(ScratchDirectory&& other) noexcept;
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  ~ScratchDirectory();

  const std::filesystem::path& path() const { return path_; }

 private:
  ScratchDirectory() = default;
  std::filesystem::path path_;
};

namespace fs = std::filesystem;

Result<ScratchDirectory> ScratchDirectory::Make() {
  SHARD_TRY(const fs::path directory, TemporaryDirectory());
  std::string name = (directory / "moepack-load-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    return Error{Code::kIo,
                 Cat(directory.string(), ": make a temporary directory: ", ErrnoText(errno)),
                 kTemporaryHint};
  }
  ScratchDirectory made;
  made.path_ = name;
  return made;
}

ScratchDirectory::ScratchDirectory(ScratchDirectory&& other) noexcept
    : path_(std::exchange(other.path_, fs::path())) {}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

constexpr size_t kTokens = 32;

// A model, and what its routers may pick.
struct Side {
  const Model& model;
  LayerExperts eligible;
};

// Runs both sides and writes the result into `node`.
Status RunBoth(const CheckReport& report, const Side& whole, const Side& part,
               const PieceDone& advance, CheckedNode& node) {
  RoutingTrace expected_trace, actual_trace;
  SessionOptions options;
  options.context = static_cast<uint32_t>(report.tokens.size());
  options.observer = &expected_trace;
  SHARD_TRY(const std::unique_ptr<Session> expected,
            Session::Open(whole.model, whole.eligible, options));
  options.observer = &actual_trace;
  SHARD_TRY(const std::unique_ptr<Session> actual,
            Session::Open(part.model, part.eligible, options));
  SideBySide both(*expected, *actual, report.tolerance);
  const std::span<const uint32_t> tokens(report.tokens);
  const size_t together = tokens.size() / 2;
  const auto feed = [&](std::span<const uint32_t> piece) -> Status {
    SHARD_CHECK(both.Feed(piece));
    advance(2 * piece.size());
    return Ok();
  };
  SHARD_CHECK(feed(tokens.first(together)));
  for (size_t i = together; i < tokens.size(); ++i) SHARD_CHECK(feed(tokens.subspan(i, 1)));
  node.findings = both.findings();
  node.eligible = CountIds(part.eligible);
  node.used = CountIds(actual_trace.Used());
  // An assembled node renumbers its experts, so its routers cannot be compared with the others.
  if (node.failed() && node.kind == CheckedNode::Kind::kBundles)
    node.where = FirstDifference(expected_trace, actual_trace, report.tolerance);
  return Ok();
}

// Says which layer has too few experts for a token; "" if none has.
std::string TooFew(const Model& model, const LayerExperts& eligible) {
  for (const auto& [layer, expert_count] : model.weights().moe_layers) {
    if (layer >= model.spec().layers) break;  // blocks for multi-token prediction
    const size_t count = moepack::IdsOf(eligible, layer).size();
    const uint32_t top_k = model.spec().layer[layer].router.top_k;
    if (count < top_k)
      return Cat("layer ", layer, " has ", Plural(count, "expert"), ", a token needs ", top_k);
  }
  return "";
}

// Says why routers may reach too few experts for a token; "" if they cannot. Which routing groups
// are chosen depends on the token. Those without an eligible expert come last.
std::string TooFewInGroups(const Routing& router, uint32_t layer, const ExpertIds& ids) {
  if (router.groups <= 1 || router.expert_count % router.groups != 0) return "";
  std::vector<uint32_t> counts(router.groups);
  for (const uint32_t id : ids) ++counts[id / (router.expert_count / router.groups)];
  std::sort(counts.begin(), counts.end());
  const auto first = std::find_if(counts.begin(), counts.end(), [](uint32_t n) { return n > 0; });
  const auto used = std::min<ptrdiff_t>(router.groups_used, counts.end() - first);
  const uint32_t least = std::accumulate(first, first + used, 0u);
  if (least >= router.top_k) return "";
  return Cat("layer ", layer, ": the ", Plural(router.groups_used, "routing group"),
             " that a token uses may hold ", Plural(least, "expert"),
             " of the node, a token needs ", router.top_k);
}

// Why a session of the model that failed could not but fail; "" if it could.
std::string TooFewForSomeTokens(const Model& model, const LayerExperts& eligible) {
  for (const auto& [layer, expert_count] : model.weights().moe_layers) {
    if (layer >= model.spec().layers) break;
    std::string why =
        TooFewInGroups(model.spec().layer[layer].router, layer, moepack::IdsOf(eligible, layer));
    if (!why.empty()) return why;
  }
  return "";
}

bool HasRoutingGroups(const Model& model) {
  const std::vector<LayerSpec>& layers = model.spec().layer;
  return std::any_of(layers.begin(), layers.end(),
                     [](const LayerSpec& layer) { return layer.router.groups > 1; });
}

// The same weights, with routers that choose among all experts.
std::shared_ptr<const Weights> WithoutRoutingGroups(const Weights& weights) {
  auto out = std::make_shared<Weights>(weights);
  for (const char* key : {"expert_group_count", "expert_group_used_count"})
    out->metadata.Remove(Cat(out->metadata.Architecture(), ".", key));
  return out;
}

const HostTensor* FindExperts(const Weights& weights, const std::string& name) {
  for (const ExpertSet& set : weights.sets) {
    for (const HostTensor& tensor : set.tensors) {
      if (tensor.name == name) return &tensor;
    }
  }
  return nullptr;
}

Status SameType(const Weights& source, const HostTensor* expected, const HostTensor& tensor) {
  if (expected != nullptr && expected->format == tensor.format) return Ok();
  return Error{
      Code::kUnsupported,
      Cat(source.path, ": tensor ", Quoted(tensor.name), ": expected ", tensor.format->name,
          " as in the distribution, found ", expected == nullptr ? "none" : expected->format->name),
      "a quantized distribution can only be checked against itself: leave --against out"};
}

// Refuses a source with other types, whose logits would differ without anything being wrong.
Status CheckSameTypes(const Weights& source, const Weights& distribution) {
  for (const HostTensor& tensor : distribution.trunk)
    SHARD_CHECK(SameType(source, source.FindTrunk(tensor.name), tensor));
  for (const ExpertSet& set : distribution.sets) {
    for (const HostTensor& tensor : set.tensors)
      SHARD_CHECK(SameType(source, FindExperts(source, tensor.name), tensor));
  }
  return Ok();
}

class Check {
 public:
  Check(const std::string& distribution, const CheckOptions& options)
      : distribution_(distribution), options_(options) {}
  Result<CheckReport> Run();

 private:
  Status LoadWhole();
  Status CheckForRefit();
  void SetTokens();
  Result<std::vector<uint32_t>> Groups() const;
  Status CheckGroup(uint32_t group);
  Status CheckBundles(CheckedNode& node);
  // Compares with the masked model, or with `bundles` if it is given.
  Status CheckAssembled(const Side* bundles, CheckedNode& node);
  // Runs the comparison with the masked model, unless the mask is too narrow, and adds the result.
  Status Compare(const Side& part, CheckedNode& node);
  // The model to compare an assembled node with.
  Result<const Model*> WholeFor(const Model& assembled);
  Status Compare(const Side& whole, const Side& part, CheckedNode& node);
  // What the distribution gives a node of the group, on its own.
  struct LoadedSide {
    std::unique_ptr<Model> model;
    LayerExperts eligible;
  };
  Result<LoadedSide> LoadBundles(const CheckedNode& node);
  Status CheckRefitted(uint32_t group);
  bool IsRefitted() const { return !parts_->refit_version.empty(); }
  void Done(CheckedNode node);
  // Checks the nodes of a group: with the overlay, without it, and assembled.
  bool HasOverlay() const { return parts_->FindOverlay() != nullptr; }
  bool Assembles() const;
  uint64_t TokensOfNode() const { return 2 * report_.tokens.size(); }
  void Advance(uint64_t tokens);

  const std::string& distribution_;
  const CheckOptions& options_;
  CheckReport report_;
  std::unique_ptr<Executor> executor_;
  std::shared_ptr<const Weights> parts_;  // everything that the distribution holds
  bool gguf_ = false;                     // its bundles
  std::unique_ptr<Model> whole_;
  std::unique_ptr<Model> ungrouped_;  // the same without routing groups, if a node needs it
  uint64_t done_tokens_ = 0, total_tokens_ = 0;
};

Status Check::LoadWhole() {
  LoadOptions load = options_.loading();
  if (options_.against.empty()) {
    load.groups.clear();  // the masked model is made of all of them
    load.not_pulled_hint =
        "the masked model is made of all groups, so pull the others, too, or take it from the "
        "source with --against SRC";
  }
  SHARD_TRY(parts_, LoadWeights(distribution_, load));
  if (!parts_->plan) return manifest::HasNoGroups(distribution_);
  SHARD_TRY(const manifest::Manifest manifest, manifest::ReadManifest(distribution_));
  gguf_ = manifest.is_gguf();
  std::shared_ptr<const Weights> whole = parts_;
  if (!options_.against.empty()) {
    load.groups.clear();
    load.overlay_version.clear();
    SHARD_TRY(whole, LoadWeights(options_.against, load));
    SHARD_CHECK(CheckSameTypes(*whole, *parts_));
  } else if (const uint64_t dropped = CountIds(parts_->plan->remainder); dropped > 0) {
    report_.notes.push_back(Cat(Plural(dropped, "expert"), dropped == 1 ? " is" : " are",
                                " on no node, so the model to compare with lacks them "
                                "too; no node's mask has them"));
  }
  SHARD_TRY(whole_, Model::Load(std::move(whole), *executor_));
  return Ok();
}

Status Check::CheckForRefit() {
  report_.of_refit = true;
  report_.notes.push_back(
      "the groups were refitted, so their nodes do not give the logits of the masked model: each "
      "is "
      "compared with the same node assembled");
  if (options_.against.empty() && Assembles()) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(options_.against.empty() ? "--no-assembled" : "--against",
                   " leaves nothing to "
                   "compare: ",
                   distribution_,
                   " was refitted, and its nodes are not part of the "
                   "source"),
               "moepack eval --against SRC measures how far its nodes are from the source"};
}

void Check::SetTokens() {
  report_.tokens = options_.tokens;
  if (!report_.tokens.empty()) return;
  report_.tokens = CheckTokens(whole_->vocabulary());
  report_.tokens.resize(std::min<size_t>(report_.tokens.size(), whole_->spec().context));
}

Result<std::vector<uint32_t>> Check::Groups() const {
  const size_t count = parts_->plan->groups.size();
  if (options_.group) {
    SHARD_CHECK(manifest::CheckGroup(distribution_, *options_.group, count));
    return std::vector<uint32_t>{*options_.group};
  }
  std::vector<uint32_t> groups(count);
  std::iota(groups.begin(), groups.end(), 0);
  return groups;
}

// True if nodes are assembled. An assembled node always includes the overlay of its distribution.
bool Check::Assembles() const {
  return options_.assembled && (options_.load.overlay || parts_->plan->overlays.empty());
}

void Check::Advance(uint64_t tokens) {
  done_tokens_ += tokens;
  if (options_.progress) options_.progress(done_tokens_, total_tokens_);
}

void Check::Done(CheckedNode node) {
  if (!node.skipped.empty()) Advance(TokensOfNode());
  if (options_.checked) options_.checked(node);
  report_.nodes.push_back(std::move(node));
}

Status Check::Compare(const Side& part, CheckedNode& node) {
  const Model* whole = whole_.get();
  if (node.kind == CheckedNode::Kind::kAssembled) {
    SHARD_TRY(whole, WholeFor(part.model));
  }
  return Compare({*whole, EligibleExperts(*parts_, node.group, node.overlay)}, part, node);
}

Result<const Model*> Check::WholeFor(const Model& assembled) {
  if (!HasRoutingGroups(*whole_) || HasRoutingGroups(assembled)) return whole_.get();
  if (ungrouped_ != nullptr) return ungrouped_.get();
  report_.notes.push_back(
      "experts of assembled nodes do not fill the routing groups evenly, so these nodes choose "
      "among all of their experts, and are compared with the masked model that does so, too");
  SHARD_TRY(ungrouped_, Model::Load(WithoutRoutingGroups(whole_->weights()), *executor_));
  return ungrouped_.get();
}

Status Check::Compare(const Side& whole, const Side& part, CheckedNode& node) {
  node.skipped = TooFew(part.model, part.eligible);
  if (!node.skipped.empty()) return Ok();
  const uint64_t before = done_tokens_;
  Status ran = RunBoth(
      report_, whole, part, [this](uint64_t tokens) { Advance(tokens); }, node);
  if (ran || ran.error().code != Code::kInvalidArgument) return ran;
  node.skipped = TooFewForSomeTokens(part.model, part.eligible);
  if (node.skipped.empty()) return ran;
  done_tokens_ = before;  // those of a node that is skipped are counted at once
  return Ok();
}

Result<Check::LoadedSide> Check::LoadBundles(const CheckedNode& node) {
  LoadOptions load = options_.loading();
  load.groups = {node.group};
  load.overlay = node.overlay;
  load.verify = false;  // LoadWhole did
  SHARD_TRY(std::shared_ptr<const Weights> weights, LoadWeights(distribution_, load));
  LoadedSide side;
  side.eligible = EligibleExperts(*weights, node.group, node.overlay);
  SHARD_TRY(side.model, Model::Load(std::move(weights), *executor_));
  return side;
}

Status Check::CheckBundles(CheckedNode& node) {
  SHARD_TRY(LoadedSide side, LoadBundles(node));
  return Compare({*side.model, std::move(side.eligible)}, node);
}

Status Check::CheckAssembled(const Side* bundles, CheckedNode& node) {
  SHARD_TRY(const ScratchDirectory scratch, ScratchDirectory::Make());
  const std::string directory = (scratch.path() / "node").string();
  manifest::AssembleOptions assemble;
  assemble.group = node.group;
  assemble.overlay = options_.load.overlay_version;
  if (!gguf_) assemble.family_file = options_.load.model.family_file;
  LoadOptions load = options_.loading();
  if (load.jobs != 0) assemble.pack.jobs = load.jobs;
  const auto assembled = manifest::AssembleNode(distribution_, directory, assemble);
  if (!assembled) {
    // A model that cannot be assembled says nothing about the bundles; damage and mismatches do.
    const Code code = assembled.error().code;
    if (code != Code::kUnsupported && code != Code::kInvalidArgument) return assembled.error();
    node.skipped = assembled.error().message;
    return Ok();
  }
  load.groups.clear();
  load.verify = false;
  load.overlay_version.clear();  // it is merged into the node
  SHARD_TRY(std::shared_ptr<const Weights> weights, LoadWeights(directory, load));
  LayerExperts eligible = EligibleExperts(*weights, std::nullopt, true);
  SHARD_TRY(const std::unique_ptr<Model> model, Model::Load(std::move(weights), *executor_));
  const Side part{*model, std::move(eligible)};
  return bundles != nullptr ? Compare(*bundles, part, node) : Compare(part, node);
}

// A refit changes what the experts produce, so a node is no longer the masked model. What remains
// to be shown is that bundles and assembled node are the same model.
Status Check::CheckRefitted(uint32_t group) {
  CheckedNode node{group, CheckedNode::Kind::kAssembled, HasOverlay()};
  SHARD_TRY(LoadedSide bundles, LoadBundles(node));
  const Side side{*bundles.model, std::move(bundles.eligible)};
  SHARD_CHECK(CheckAssembled(&side, node));
  Done(std::move(node));
  return Ok();
}

Status Check::CheckGroup(uint32_t group) {
  if (IsRefitted()) return CheckRefitted(group);
  for (const bool overlay : {true, false}) {
    if (overlay && !HasOverlay()) continue;
    CheckedNode node{group, CheckedNode::Kind::kBundles, overlay};
    SHARD_CHECK(CheckBundles(node));
    Done(std::move(node));
  }
  if (!Assembles()) return Ok();
  CheckedNode node{group, CheckedNode::Kind::kAssembled, HasOverlay()};
  SHARD_CHECK(CheckAssembled(nullptr, node));
  Done(std::move(node));
  return Ok();
}

Result<CheckReport> Check::Run() {
  SHARD_TRY(executor_, OpenExecutor(options_.executor, options_.device));
  report_.executor = executor_->description();
  report_.tolerance = options_.tolerance.value_or(DefaultTolerance(options_.executor));
  SHARD_CHECK(LoadWhole());
  if (IsRefitted()) SHARD_CHECK(CheckForRefit());
  if (Assembles()) SHARD_CHECK(TemporaryDirectory());  // not after the first nodes
  SetTokens();
  SHARD_TRY(const std::vector<uint32_t> groups, Groups());
  const uint64_t nodes = IsRefitted() ? 1 : 1 + (HasOverlay() ? 1 : 0) + (Assembles() ? 1 : 0);
  total_tokens_ = groups.size() * nodes * TokensOfNode();
  Advance(0);
  for (const uint32_t group : groups) {
    if (Status status = CheckGroup(group); !status)
      return std::move(status).error().Within(Cat("group ", group));
  }
  const auto ran = [](const CheckedNode& node) { return node.skipped.empty(); };
  if (std::none_of(report_.nodes.begin(), report_.nodes.end(), ran)) {
    return Error{Code::kMismatch,
                 Cat(distribution_,
                     ": nodes: expected at least one that can run, found none; the "
                     "first: ",
                     report_.nodes.front().skipped)};
  }
  return std::move(report_);
}

}  // namespace

uint64_t CheckReport::failures() const {
  return static_cast<uint64_t>(std::count_if(
      nodes.begin(), nodes.end(), [](const CheckedNode& node) { return node.failed(); }));
}

double DefaultTolerance(const std::string& executor) { return executor == "cpu" ? 0 : 1e-4; }

std::vector<uint32_t> CheckTokens(uint32_t vocabulary) {
  RandomBits random(1);
  std::vector<uint32_t> tokens(kTokens);
  for (uint32_t& token : tokens) token = static_cast<uint32_t>(random.Uniform() * vocabulary);
  return tokens;
}

Result<CheckReport> CheckDistribution(const std::string& distribution,
                                      const CheckOptions& options) {
  return Check(distribution, options).Run();
}

}  // namespace moepack::runtime
