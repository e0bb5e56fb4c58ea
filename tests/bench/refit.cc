// The steps of a refit of one layer of one node, with random weights: seconds, processor time and
// held-out error by step. By hand, and by cuda_layer.sh.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "libshard/base/parallel.h"
#include "runtime-shim/devices/executors.h"
#include "runtime-shim/refit/node_layer.h"
#include "runtime-shim/refit/refill.h"
#include "runtime-shim/refit/ridge.h"
#include "runtime-shim/refit/router_fit.h"
#include "runtime-shim/refit/tune.h"

namespace moepack::runtime {
namespace {

struct Shape {
  uint32_t hidden = 2048, width = 768, all = 16, kept = 8, top_k = 4;
  size_t tokens = 2048;
  uint32_t updates = 10;
  std::string executor = "cpu";
  std::string steps = "ridge,refill,router,tune";
};

// The same values on every machine, by all of its threads: there are hundreds of millions.
std::vector<float> Normal(size_t count, uint32_t seed, float size) {
  constexpr size_t kPiece = 1 << 20;
  std::vector<float> values(count);
  ForPieces(count, kPiece, 0, [&](size_t begin, size_t end) {
    std::mt19937 random(static_cast<uint32_t>(seed + 16 * (begin / kPiece)));
    std::normal_distribution<float> normal(0, size);
    for (size_t i = begin; i < end; ++i) values[i] = normal(random);
  });
  return values;
}

template <class Value>
Value Must(Result<Value> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(1);
}

void Must(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(1);
}

double WallTime() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double ProcessorTime() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Experts of a whole layer in BF16, and a node that keeps the first of them.
class BenchLayer {
 public:
  explicit BenchLayer(const Shape& shape)
      : shape_(shape), executor_(Must(OpenExecutor(shape.executor, {}))), products_(*executor_, 0) {
    const size_t matrix = size_t{shape.all} * shape.hidden * shape.width;
    weights_.path = "made";
    Add("blk.0.ffn_gate_inp.weight", "f32", Normal(size_t{shape.all} * shape.hidden, 1, 0.02f),
        {shape.all, shape.hidden}, weights_.trunk);
    ExpertSet& set = weights_.sets.emplace_back();
    for (uint32_t id = 0; id < shape.all; ++id) set.experts_by_layer[0].push_back(id);
    Add("blk.0.ffn_gate_exps.weight", "bf16", Normal(matrix, 2, 0.02f),
        {shape.all, shape.width, shape.hidden}, set.tensors);
    Add("blk.0.ffn_up_exps.weight", "bf16", Normal(matrix, 3, 0.02f),
        {shape.all, shape.width, shape.hidden}, set.tensors);
    Add("blk.0.ffn_down_exps.weight", "bf16", Normal(matrix, 4, 0.02f),
        {shape.all, shape.hidden, shape.width}, set.tensors);
    LoadTable(set);
    RowRoom room;
    inputs_ = std::make_unique<RowStore>(Must(RowStore::Make(shape.tokens, shape.hidden, room)));
    targets_ = std::make_unique<RowStore>(Must(RowStore::Make(shape.tokens, shape.hidden, room)));
    outputs_ = std::make_unique<RowStore>(Must(RowStore::Make(shape.tokens, shape.hidden, room)));
    Must(inputs_->Write(0, Normal(shape.tokens * shape.hidden, 5, 1)));
    NodeLayer whole = NodeOf(shape.all);
    Must(RouteNode(products_, whole));
    Must(RunNode(products_, whole));
    std::vector<float> rows(shape.tokens * shape.hidden);
    Must(outputs_->Read(0, rows));
    Must(targets_->Write(0, rows));
    node_ = NodeOf(shape.kept);
  }

  void Run() {
    std::printf("%s\n", executor_->description().c_str());
    if (const std::optional<Error> missing = executor_->WithoutAlgebra())
      std::printf("without dense algebra: %s\n", missing->message.c_str());
    const double before = WallTime();
    Time("run", [&] { RunAll(); });
    for (size_t first = 0; first < shape_.steps.size();) {
      const size_t end = std::min(shape_.steps.find(',', first), shape_.steps.size());
      Take(shape_.steps.substr(first, end - first));
      first = end + 1;
    }
    std::printf("%-7s %8.2f s\n", "layer", WallTime() - before);
  }

 private:
  void RunAll() {
    Must(RouteNode(products_, node_));
    Must(RunNode(products_, node_));
  }

  void Take(const std::string& step) {
    Must(CheckSteps("steps", {step}));
    RefitOptions options;
    uint64_t moved = 0;
    Time(step.c_str(), [&] {
      if (step == kRidgeStep) {
        Must(RidgeDown(products_, options, node_));
        Must(RunDown(products_, node_));
      } else if (step == kRefillStep) {
        const NeuronSource source{table_, &weights_, weights_.sets};
        moved = Must(RefillExperts(products_, options, source, node_));
      } else if (step == kRouterStep) {
        RouterOptions router;
        router.memory = options.matrix_memory();
        Must(FitRouter(products_, router, node_));
        RunAll();
      } else if (step == kTuneStep) {
        TuneOptions tune;
        tune.updates = shape_.updates;
        Must(TuneExperts(products_, tune, node_));
        RunAll();
      }
    });
    if (moved > 0) std::printf("  %llu neurons moved\n", static_cast<unsigned long long>(moved));
    if (products_.TakeRefusal()) std::printf("  too little memory on the device for all of it\n");
  }

  template <class Work>
  void Time(const char* step, const Work& work) {
    const double before = ProcessorTime(), start = WallTime();
    work();
    std::printf("%-7s %8.2f s   processor %8.2f s   error %.5f\n", step, WallTime() - start,
                ProcessorTime() - before, Must(FoldError(node_)));
    std::fflush(stdout);
  }

  void Add(const char* name, const char* type, const std::vector<float>& values,
           std::vector<uint64_t> shape, std::vector<HostTensor>& to) {
    const quant::Format* const format = quant::FindFormat(type);
    std::vector<std::byte>& bytes = bytes_.emplace_back(*format->BytesFor(values.size()));
    format->encode(values, {}, bytes);
    to.push_back({name, format, std::move(shape), bytes});
  }

  void LoadTable(const ExpertSet& set) {
    experts_.resize(shape_.all);
    const auto slice = [&](size_t tensor, uint32_t id, uint32_t rows, uint32_t columns) {
      if (id == 0) buffers_.push_back(Must(executor_->Load(set.tensors[tensor].bytes)));
      const Matrix all{buffers_[tensor].get(), 0, set.tensors[tensor].format, rows * shape_.all,
                       columns};
      return Linear{all.Slice(id * rows, rows), {}};
    };
    for (uint32_t id = 0; id < shape_.all; ++id) {
      experts_[id].gate = slice(0, id, shape_.width, shape_.hidden);
      experts_[id].up = slice(1, id, shape_.width, shape_.hidden);
      experts_[id].down = slice(2, id, shape_.hidden, shape_.width);
    }
    for (const MlpWeights& expert : experts_) table_.push_back(&expert);
  }

  NodeLayer NodeOf(uint32_t kept) {
    NodeLayer node;
    ExpertIds ids;
    for (uint32_t id = 0; id < kept; ++id) ids.push_back(id);
    node.routing.expert_count = shape_.all;
    node.routing.top_k = shape_.top_k;
    node.experts = Must(ReadSourceExperts(weights_, weights_.sets, 0, ids));
    node.fixed.assign(kept, false);
    node.inputs = node.router_inputs = inputs_.get();
    node.targets = targets_.get();
    node.outputs = outputs_.get();
    for (size_t token = 0; token < shape_.tokens; ++token) {
      node.fit_weights.push_back(token % 8 == 7 ? 0 : 1);
      node.fold_weights.push_back(token % 8 == 7 ? 1 : 0);
    }
    return node;
  }

  Shape shape_;
  std::unique_ptr<Executor> executor_;
  Products products_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<BufferPtr> buffers_;
  std::vector<MlpWeights> experts_;
  std::vector<const MlpWeights*> table_;
  Weights weights_;
  std::unique_ptr<RowStore> inputs_, targets_, outputs_;
  NodeLayer node_;
};

}  // namespace
}  // namespace moepack::runtime

// bench-refit [hidden width experts kept chosen tokens updates executor steps]
int main(int count, char** values) {
  moepack::runtime::Shape shape;
  const auto take = [&](int at, auto& to) {
    if (at < count)
      to =
          static_cast<std::remove_reference_t<decltype(to)>>(std::strtoul(values[at], nullptr, 10));
  };
  take(1, shape.hidden), take(2, shape.width), take(3, shape.all), take(4, shape.kept);
  take(5, shape.top_k), take(6, shape.tokens), take(7, shape.updates);
  if (count > 8) shape.executor = values[8];
  if (count > 9) shape.steps = values[9];
  moepack::runtime::BenchLayer(shape).Run();
  return 0;
}
