#include "runtime-shim/session/scratch.h"

#include <algorithm>
#include <optional>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

// Collects what is to be allocated, so that the whole size is known before anything is.
class Allocation {
 public:
  void Add(Rows& rows, uint32_t count, uint64_t width) {
    wanted_.push_back({&rows, count, width});
    const auto values = CheckedMul(count, width);
    const auto bytes = values ? CheckedMul(*values, sizeof(float)) : std::nullopt;
    const auto sum = bytes ? CheckedAdd(bytes_, *bytes) : std::nullopt;
    bytes_ = sum.value_or(UINT64_MAX);
    fits_ = fits_ && sum && width <= INT32_MAX;
  }
  // False when a row is wider than 32 bits can count, or the bytes are more than 64 bits can.
  bool fits() const { return fits_; }
  uint64_t bytes() const { return bytes_; }

  Status Make(Executor& executor, std::vector<BufferPtr>& buffers) const {
    for (const Wanted& wanted : wanted_) {
      if (wanted.width == 0) continue;
      const auto width = static_cast<uint32_t>(wanted.width);
      SHARD_TRY(BufferPtr buffer,
                executor.Allocate(uint64_t{wanted.count} * width * sizeof(float)));
      *wanted.rows = {buffer.get(), 0, wanted.count, width, width};
      buffers.push_back(std::move(buffer));
    }
    return Ok();
  }

 private:
  struct Wanted {
    Rows* rows;
    uint32_t count;
    uint64_t width;
  };
  std::vector<Wanted> wanted_;
  uint64_t bytes_ = 0;
  bool fits_ = true;
};

uint64_t WidestMlp(const DeviceModel& model) {
  uint64_t widest = 0;
  for (const LayerWeights& layer : model.trunk().layers) {
    widest = std::max<uint64_t>(widest, layer.dense.gate.weight.rows);
    widest = std::max<uint64_t>(widest, layer.shared.gate.weight.rows);
  }
  return std::max(widest, model.widest_expert());
}

uint32_t MostExperts(const DeviceModel& model) {
  uint32_t most = 0;
  for (const LayerWeights& layer : model.trunk().layers)
    most = std::max(most, layer.router.weight.rows);
  return most;
}

void AddAttention(const DeviceModel& model, uint32_t batch, Scratch& scratch, Allocation& all) {
  const ModelSpec& spec = model.spec();
  const uint64_t heads = spec.heads;
  if (!spec.is_latent()) {
    all.Add(scratch.queries, batch, heads * spec.key_width);
    all.Add(scratch.attended, batch, heads * spec.value_width);
    all.Add(scratch.head_gates, batch, heads);
    if (spec.gated_queries) {
      all.Add(scratch.query_wide, batch, 2 * heads * spec.key_width);
      all.Add(scratch.gates, batch, heads * spec.key_width);
    }
    all.Add(scratch.delta_mixed, batch, spec.delta.channels());
    all.Add(scratch.delta_values, batch, std::max(spec.delta.values(), 2 * spec.delta.value_heads));
    return;
  }
  uint64_t low = 0;
  for (const LayerWeights& layer : model.trunk().layers)
    low = std::max<uint64_t>(low, layer.attention.query_down.rows);
  all.Add(scratch.query_low, batch, low);
  all.Add(scratch.query_wide, batch, heads * spec.key_width);
  all.Add(scratch.queries, batch, heads * (spec.latent.rank + spec.rope.dims));
  all.Add(scratch.latent_out, batch, heads * spec.latent.rank);
  all.Add(scratch.attended, batch, heads * spec.latent.value_width);
}

void AddCaches(const ModelSpec& spec, uint32_t context, Scratch& scratch, Allocation& all) {
  scratch.caches.resize(spec.layers);
  for (uint32_t number = 0; number < spec.layers; ++number) {
    const LayerSpec& layer = spec.layer[number];
    LayerCache& cache = scratch.caches[number];
    if (layer.recurrent) {
      cache.delta.Clear(spec.delta);
      continue;
    }
    if (spec.is_latent()) {
      all.Add(cache.keys, context, spec.latent.rank + spec.rope.dims);
      continue;
    }
    all.Add(cache.keys, context, uint64_t{layer.key_heads} * spec.key_width);
    all.Add(cache.values, context, uint64_t{layer.key_heads} * spec.value_width);
  }
}

}  // namespace

Result<Scratch> AllocateScratch(const DeviceModel& model, uint32_t batch, uint32_t context) {
  const ModelSpec& spec = model.spec();
  Scratch scratch;
  Allocation all;
  for (Rows* rows : {&scratch.hidden, &scratch.normed, &scratch.branch, &scratch.expert_in,
                     &scratch.expert_out, &scratch.zeros})
    all.Add(*rows, batch, spec.width);
  AddAttention(model, batch, scratch, all);
  all.Add(scratch.gate, batch, WidestMlp(model));
  all.Add(scratch.up, batch, WidestMlp(model));
  all.Add(scratch.router, batch, MostExperts(model));
  all.Add(scratch.shared_gate, batch, 1);
  all.Add(scratch.turns, batch, spec.rope.dims);
  all.Add(scratch.local_turns, batch, spec.local_rope.dims);
  all.Add(scratch.logits, batch, model.vocabulary());
  AddCaches(spec, context, scratch, all);
  Executor& executor = model.executor();
  if (!all.fits() || all.bytes() > executor.available()) {
    return Error{Code::kUnavailable,
                 Cat(model.weights().path, ": cache and activations: expected ", all.bytes(),
                     " bytes free on ", executor.description(), ", found ", executor.available()),
                 "a smaller --context needs less"};
  }
  SHARD_CHECK(all.Make(executor, scratch.buffers));
  if (spec.is_latent()) {
    for (LayerCache& cache : scratch.caches) cache.values = cache.keys.Columns(0, spec.latent.rank);
  }
  return scratch;
}

}  // namespace moepack::runtime
