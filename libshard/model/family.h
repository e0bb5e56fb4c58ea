// A model family as a table that says which tensor belongs to which part. A family has no code of
// its own, only rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/layer_fields.h"
#include "libshard/model/routing.h"

namespace moepack {

// How the model cards of a family count active parameters. docs/families.md compares with the
// cards.
enum class CardConvention : uint8_t {
  kAll,               // every weight that a token uses, as moepack counts
  kWithoutEmbedding,  // the input embedding is a look-up of one row
  kWithoutTables,     // nor the head
};

// Facts that hold for all models of the family and that config.json does not state. A check relies
// on a fact only where it is set (libshard/check).
struct ConfigFacts {
  bool all_moe = false;        // every decoder layer has experts
  bool square_heads = false;   // heads are hidden size / heads wide unless head_dim says otherwise
  bool plain_width = false;    // experts are intermediate_size wide
  bool gated_queries = false;  // q_proj holds a gate beside each query
  bool transposed = false;     // packed experts without a leaf are [experts, in, out]
  bool interleaved = false;    // fused gate_up has the rows of gate and up in turn
  bool shared_of_experts = false;  // a shared expert is as wide as so many routed ones
};

// Whether a family has something: always, never, or depending on a field of the config.
struct ConfigSwitch {
  ConfigKeys keys = {};    // empty when `otherwise` always holds; a list of layer_fields.h
  bool otherwise = false;  // when the field is absent
};

// Facts about tensors that the rows do not tell. The list of tensors that a config alone promises
// needs them (libshard/check/promised_model.cc).
struct PromiseFacts {
  bool complete = false;       // such a list has all tensors; otherwise some may be missing
  bool packed = false;         // experts are stored packed, although there are rows for single ones
  bool f32_router = false;     // the router is F32, whatever the config's dtype
  bool norm_biases = false;    // norms have a bias
  bool expert_biases = false;  // router and experts have one
  bool always_shared = false;  // every MoE layer has a shared expert, as wide as a routed one
  bool indexer = false;        // attention picks its keys by an indexer
  std::vector<std::string> indexed = {};  // architectures of the family that do so
  bool joined_linear = false;             // linear attention's four input projections are two
  ConfigSwitch attention_biases = {fields::kAttentionBias};
  bool output_bias = true;  // where there are biases, the output projection has one, too
  ConfigSwitch query_key_norms = {};
  bool whole_norms = false;  // over all heads at once
  bool layer_norms = false;  // they are called query_layernorm and key_layernorm
  bool attention_sinks = false;
};

enum class Part : uint8_t { kTrunk, kRouter, kShared, kExpert };
std::string_view PartName(Part part);  // "trunk", "router", "shared", "expert"

// One row: the tensors whose name (after the family's prefix) matches `pattern`. Tokens of a
// pattern, each standing for whole dot-separated components unless said otherwise:
//   {L}   a number: the layer
//   {M}   a number: the multi-token-prediction block; its layer is (number of decoder layers + M)
//   {E}   a number: the expert
//   {N}   a number that does not matter (towers with their own numbering)
//   {W}   a linear layer's weight or one of its companions (kWeightLeaves in family_match.cc):
//         weight, bias, weight_scale_inv, weight_packed, scales, ...; at the end only, there also
//         nothing at all when the name ends before it ("experts.gate_up_proj"); after text it is
//         the end of a component ("gate_up_proj_{W}" for gate_up_proj_blocks)
//   {*}   any text without a dot, also none, also within a component ("{*}norm"); once per
//   component
//   {**}  any rest, one character or more; at the end only, also after text ("vision_{**}")
// Numbers are only matched by {L}, {M}, {E} and {N}: a literal component of digits never matches.
struct TensorRule {
  std::string pattern;
  Part part = Part::kTrunk;
  std::string role = {};  // "gate", "up", "down", "gate_up", "router", "selection_bias",
                          // "attention", "vision", "audio", ...; "mtp" marks tensors of MTP blocks
  // Packed tensors and router rows: the axis with one entry per expert; -1 is the last axis.
  std::optional<int> expert_axis = {};
  bool folded =
      false;  // that axis holds (experts x rows): expert e owns rows e*rows ... (e+1)*rows
  bool holds_expert_ids = false;  // the values are expert ids (hash routing tables)
};

// Models of a family that route differently if their config does not say.
struct RoutingException {
  std::string model_type;  // how their model_type, or the text model's, starts
  Routing routing;
};

struct Family {
  std::string name;                        // "qwen3-moe"
  std::vector<std::string> architectures;  // accepted config.json architectures[0]
  std::vector<std::string>
      model_types;  // accepted config.json model_type, if no architecture matched
  std::vector<std::string>
      prefixes;  // the longest one that a name starts with is removed before matching
  // What the family's config class in transformers fills in if config.json does not say.
  Routing routing;
  std::vector<RoutingException> routing_exceptions = {};
  ConfigFacts facts = {};
  PromiseFacts promise = {};
  CardConvention cards = CardConvention::kAll;
  std::vector<TensorRule> rules;  // the first match wins
};

// The result of matching one name, with a layer and an expert if they apply.
struct TensorClass {
  const TensorRule* rule = nullptr;
  std::optional<uint32_t> layer = {}, expert = {};
  bool mtp = false;
  std::string_view leaf;  // what {W} stood for: "weight", "weight_scale", ...; for rows that end in
                          // {*} or {**} the last component if it is such a word; else empty.
                          // Static storage.
};

// What the elements of a tensor are, judged by its leaf. It determines how parameters are counted.
enum class LeafUse : uint8_t {
  kValues,     // one element per parameter (of a floating-point type): weight, bias, no leaf at all
  kPacked,     // several parameters per element: weight_packed, qweight, blocks
  kCompanion,  // no parameters of its own: scales, zero points, shapes, index tables
};
LeafUse UseOfLeaf(std::string_view leaf);
// False for companions that say how activations and the key/value cache are quantized: the numbers
// of the weight do not depend on them.
bool AffectsNumbers(std::string_view leaf);

// The leaf of a tensor that this row matched: `matched`, what {W} stood for, or such a word at the
// end of the row's pattern ("bias" of "layers.{L}.mlp.router.bias"); else empty.
std::string_view LeafOf(const TensorRule& rule, std::string_view matched);

// Returns what is wrong with a row, as a clause ("{**} is not at the end"); "" if nothing is.
std::string RuleProblem(const TensorRule& rule);

// What a config calls the models of a family.
struct FamilyNames {
  std::string_view name;                            // Family::name
  std::span<const std::string_view> architectures;  // Family::architectures
  std::span<const std::string_view> model_types;    // Family::model_types
};

// The families that are built in, one file each in libshard/families/. A table is built when it is
// first looked at, and never destroyed; names() builds none.
class FamilyList {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Family;
    using difference_type = std::ptrdiff_t;
    using pointer = const Family*;
    using reference = const Family&;

    explicit Iterator(size_t index = 0) : index_(index) {}
    const Family& operator*() const { return FamilyList()[index_]; }
    const Family* operator->() const { return &**this; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(index_++); }
    bool operator==(const Iterator&) const = default;

   private:
    size_t index_;
  };

  size_t size() const;
  const Family& operator[](size_t index) const;
  const FamilyNames& names(size_t index) const;
  Iterator begin() const { return Iterator(0); }
  Iterator end() const { return Iterator(size()); }
};
inline FamilyList AllFamilies() { return {}; }

// Matches names against the rows of one family. It remembers the shapes of names (digits removed),
// so that most names cost one hash look-up. Not thread-safe; borrows the family.
class FamilyMatcher {
 public:
  // `decoder_layers` is added to {M}.
  FamilyMatcher(const Family& family, uint32_t decoder_layers);
  ~FamilyMatcher();
  FamilyMatcher(FamilyMatcher&&) noexcept;

  // rule == nullptr if no row matches.
  TensorClass Classify(std::string_view name);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Reads such a table from JSON (docs/families.md), for a model we do not know. kCorrupt names the
// field at fault.
Result<Family> ReadFamilyFile(const std::string& path);

}  // namespace moepack
