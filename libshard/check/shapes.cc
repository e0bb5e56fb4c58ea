#include "libshard/check/shapes.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>

#include "libshard/base/text/text.h"
#include "libshard/check/expected_shape.h"
#include "libshard/check/layer_names.h"
#include "libshard/check/module.h"

namespace moepack {
namespace {

bool IsInteger(const TensorEntry& entry) {
  constexpr std::array kIntegers = {"U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"};
  return std::find(kIntegers.begin(), kIntegers.end(), entry.dtype) != kIntegers.end();
}

bool Same(uint64_t found, uint64_t expected) { return expected == 0 || found == expected; }

// True if `values` numbers of 2 to 8 bits can take `words` words, of which the last may be padded.
bool PacksInto(uint64_t values, uint64_t words, uint64_t word_bits) {
  for (const uint64_t bits : {2, 3, 4, 5, 6, 8}) {
    uint64_t all = 0;
    if (__builtin_mul_overflow(values, bits, &all)) return false;
    if (all / word_bits + (all % word_bits != 0) == words) return true;
  }
  return false;
}

bool FitsPacked(const TensorEntry& entry, std::string_view leaf,
                const std::vector<uint64_t>& dims) {
  const std::vector<uint64_t>& shape = entry.shape;
  const size_t last = dims.size() - 1;
  // GPTQ packs along one axis and AWQ along the other; conversion checks them.
  if (leaf == "qweight") return true;
  if (leaf == "blocks") {
    constexpr uint64_t kBlockValues = 32, kBlockBytes = 16;  // MXFP4
    return shape.size() == dims.size() + 1 && shape.back() == kBlockBytes &&
           std::equal(dims.begin(), dims.end() - 1, shape.begin(),
                      [](auto a, auto b) { return Same(b, a); }) &&
           Same(shape[last] * kBlockValues, dims[last]);
  }
  if (shape.size() != dims.size()) return false;
  const uint64_t word_bits = entry.Elements() == 0 ? 8 : entry.bytes * 8 / entry.Elements();
  for (size_t i = 0; i < last; ++i) {
    if (!Same(shape[i], dims[i])) return false;
  }
  return dims[last] == 0 || PacksInto(dims[last], shape[last], word_bits);
}

bool Fits(const MoeModel& model, const ModelTensor& tensor, const std::vector<uint64_t>& dims) {
  const TensorEntry& entry = model.entry(tensor);
  if (!model.checkpoint().is_gguf() && IsInteger(entry)) {
    return FitsPacked(entry, tensor.leaf, dims);
  }
  return entry.shape.size() == dims.size() &&
         std::equal(dims.begin(), dims.end(), entry.shape.begin(),
                    [](uint64_t expected, uint64_t found) { return Same(found, expected); });
}

bool IsLatent(const MoeModel& model) {
  return std::any_of(model.tensors().begin(), model.tensors().end(), [&](const auto& tensor) {
    return ModuleNamed(ModuleName(model.entry(tensor).name, tensor.leaf)) == Module::kLatentA;
  });
}

class Shapes {
 public:
  Shapes(const MoeModel& model, const ModelPromise& promise)
      : model_(model), expected_(promise, IsLatent(model)) {}

  void Check(std::vector<CheckFinding>& findings) {
    for (const ModelTensor& tensor : model_.tensors()) {
      const std::string_view leaf = LeafOf(model_, tensor);
      if (UseOfLeaf(leaf) == LeafUse::kCompanion) continue;
      const MoeLayer* layer = model_.FindLayer(tensor.layer);
      const std::optional<Dims> expected = expected_.Of(
          {tensor, model_.entry(tensor).name, leaf, layer == nullptr ? 0 : layer->expert_count});
      if (expected && !Fits(model_, tensor, expected->sizes)) Note(tensor, *expected);
    }
    for (const auto& [key, misfit] : misfits_) findings.push_back(FindingOf(misfit));
  }

 private:
  struct Misfit {
    const ModelTensor* first;
    Dims expected;
    size_t count = 0;
  };

  // Notes a finding. Tensors of one row with the same shape share it.
  void Note(const ModelTensor& tensor, const Dims& expected) {
    const TensorEntry& entry = model_.entry(tensor);
    const std::string key =
        Cat(tensor.rule->pattern, " ", ModuleName(entry.name, tensor.leaf), " ", tensor.leaf, " ",
            FormatShape(entry.shape), FormatShape(expected.sizes));
    Misfit& misfit = misfits_.try_emplace(key, Misfit{&tensor, expected}).first->second;
    ++misfit.count;
  }

  CheckFinding FindingOf(const Misfit& misfit) const {
    const TensorEntry& entry = model_.entry(*misfit.first);
    std::string expected;
    for (const uint64_t size : misfit.expected.sizes) {
      expected += Cat(expected.empty() ? "[" : ", ", size == 0 ? "any" : Cat(size));
    }
    const bool packed = !model_.checkpoint().is_gguf() && IsInteger(entry);
    std::string what = Cat("tensor ", Quoted(entry.name));
    if (misfit.count > 1) what += Cat(" and ", misfit.count - 1, " like it");
    return {FindingKind::kMisshapen, std::move(what),
            Cat(expected, "] (", misfit.expected.why, packed ? ", packed" : "", ")"),
            packed ? Cat(FormatShape(entry.shape), " of ", entry.dtype) : FormatShape(entry.shape)};
  }

  const MoeModel& model_;
  const ExpectedShapes expected_;
  std::map<std::string, Misfit> misfits_;
};

}  // namespace

void CheckShapes(const MoeModel& model, const ModelPromise& promise,
                 std::vector<CheckFinding>& findings) {
  Shapes(model, promise).Check(findings);
}

}  // namespace moepack
