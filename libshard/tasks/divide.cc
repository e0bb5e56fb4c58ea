#include "libshard/tasks/divide.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <string_view>
#include <tuple>

#include "libshard/convert/row_reader.h"
#include "libshard/format/output_file.h"

namespace moepack {
namespace {

// The cost of producing an output's bytes, so that tasks get equal shares of the work.

// Nanoseconds per 10 values on one core, without and with importance: the rates of
// docs/benchmarks.md, "Encoders beside ggml". A core reads, hashes and writes about a byte per
// nanosecond ("shard-experts" there), so these numbers are bytes as well.
struct Cost {
  std::string_view type;
  uint32_t plain, weighted;
};

constexpr Cost kCosts[] = {
    {"f32", 1, 1},     {"f16", 2, 2},     {"bf16", 1, 1},       {"q8_0", 5, 5},
    {"q6_K", 30, 31},  {"q5_K", 44, 93},  {"q4_K", 48, 88},     {"q3_K", 18, 33},
    {"q2_K", 43, 101}, {"q4_0", 5, 32},   {"q4_1", 6, 94},      {"q5_0", 10, 36},
    {"q5_1", 11, 99},  {"mxfp4", 16, 16}, {"iq4_nl", 108, 109}, {"iq4_xs", 110, 112},
};

// For types without a row there: those with code books search longest.
constexpr Cost kOthers = {"", 100, 300};

// The cost of encoding `values` values of the tensor, as the number of bytes that could be read,
// hashed and written meanwhile. 0 for a tensor that is copied.
uint64_t EncodeCost(const OutputTensor& tensor, uint64_t values) {
  if (!tensor.encoding || tensor.encoding->repack) return 0;
  const Encoding& encoding = *tensor.encoding;
  const auto* row = std::find_if(std::begin(kCosts), std::end(kCosts),
                                 [&](const Cost& cost) { return cost.type == encoding.to->name; });
  const Cost& cost = row == std::end(kCosts) ? kOthers : *row;
  return values * (encoding.importance == nullptr ? cost.plain : cost.weighted) / 10;
}

// Small enough that no task is much larger than another, and large enough that a huge checkpoint
// has at most some hundred thousand fragments.
constexpr uint64_t kFragmentsPerTask = 64;
constexpr uint64_t kLeastFragment = 64u << 10, kLargestFragment = 16u << 20;

uint64_t FragmentSize(const std::vector<OutputFile>& outputs, uint32_t tasks) {
  uint64_t total = 0;
  for (const OutputFile& output : outputs) total += output.size;
  return std::clamp(total / tasks / kFragmentsPerTask, kLeastFragment, kLargestFragment);
}

// Where the source of a fragment is, as the packing engine orders it (pack_units.h): the expert's
// order, file, place. Rows of a reader have no file.
using Place = std::tuple<uint64_t, uint64_t, uint64_t>;

Place PlaceOf(const OutputTensor& tensor, const Fragment& fragment) {
  if (!tensor.rows.empty()) {
    const RowRange& rows = tensor.rows[fragment.first_range];
    return {rows.order, 0, rows.first + fragment.skip};
  }
  if (tensor.sources.empty()) return {};  // literal
  const SourceRange& range = tensor.sources[fragment.first_range];
  return {range.order, range.file + uint64_t{1}, range.offset + fragment.skip};
}

// What it takes to make a fragment once, wherever it goes.
TaskLoad Making(const OutputTensor& tensor, const Fragment& fragment) {
  TaskLoad load;
  load.read = tensor.literal ? 0 : fragment.bytes;
  if (tensor.encoding) {
    const Encoding& encoding = *tensor.encoding;
    const uint64_t row_bytes = *encoding.to->BytesFor(encoding.row_values);
    const uint64_t values = fragment.bytes / row_bytes * encoding.row_values;
    // For a reader only its type counts: scales take next to nothing.
    load.read = encoding.reader == nullptr
                    ? fragment.taken
                    : encoding.from->BytesFor(values).value_or(fragment.bytes);
    load.work = EncodeCost(tensor, values);
  }
  load.work += load.read;
  return load;
}

// The fragments made from the same source, and what they need together.
struct Batch {
  size_t begin = 0, end = 0;  // in the sorted list
  TaskLoad load;
};

class Sorter {
 public:
  Sorter(const std::vector<OutputFile>& outputs, const std::vector<Fragment>& fragments)
      : outputs_(outputs), fragments_(fragments) {
    keys_.reserve(fragments.size());
    for (const Fragment& fragment : fragments) keys_.push_back(PlaceOf(Of(fragment), fragment));
    order_.resize(fragments.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](uint32_t a, uint32_t b) { return keys_[a] < keys_[b]; });
  }

  const std::vector<uint32_t>& order() const { return order_; }

  std::vector<Batch> Batches() const {
    std::vector<Batch> batches;
    for (size_t i = 0; i < order_.size(); ++i) {
      const Fragment& fragment = fragments_[order_[i]];
      const bool again = i > 0 && SharesWork(order_[i - 1], order_[i]);
      if (!again) batches.push_back({i, i, Making(Of(fragment), fragment)});
      Batch& batch = batches.back();
      batch.end = i + 1;
      batch.load.written += fragment.bytes;
      batch.load.work += fragment.bytes;
    }
    return batches;
  }

 private:
  const OutputTensor& Of(const Fragment& fragment) const {
    return outputs_[fragment.output].tensors[fragment.tensor];
  }

  bool SharesWork(uint32_t a, uint32_t b) const {
    const OutputTensor& one = Of(fragments_[a]);
    const OutputTensor& other = Of(fragments_[b]);
    const auto type = [](const OutputTensor& tensor) {
      return tensor.encoding ? tensor.encoding->to : nullptr;
    };
    return keys_[a] == keys_[b] && fragments_[a].taken == fragments_[b].taken && !one.literal &&
           !other.literal && type(one) == type(other);
  }

  const std::vector<OutputFile>& outputs_;
  const std::vector<Fragment>& fragments_;
  std::vector<Place> keys_;
  std::vector<uint32_t> order_;
};

}  // namespace

WorkDivision::WorkDivision(const std::vector<OutputFile>& outputs, uint32_t tasks) : loads_(tasks) {
  const uint64_t size = FragmentSize(outputs, tasks);
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    for (uint32_t t = 0; t < outputs[i].tensors.size(); ++t) {
      CutTensor(outputs[i].tensors[t], size, {.output = i, .tensor = t}, fragments_);
    }
  }
  task_.resize(fragments_.size());
  const Sorter sorter(outputs, fragments_);
  const std::vector<Batch> batches = sorter.Batches();
  uint64_t total = 0;
  for (const Batch& batch : batches) total += batch.load.work;
  // A batch belongs to the task whose share contains its middle. If shares are below one byte of
  // work, the tasks with numbers in between get nothing.
  const uint64_t share = std::max<uint64_t>(1, (total + tasks - 1) / tasks);
  uint64_t before = 0;
  for (const Batch& batch : batches) {
    const auto task =
        std::min(static_cast<uint32_t>((before + batch.load.work / 2) / share), tasks - 1);
    before += batch.load.work;
    loads_[task].read += batch.load.read;
    loads_[task].written += batch.load.written;
    loads_[task].work += batch.load.work;
    for (size_t i = batch.begin; i < batch.end; ++i) task_[sorter.order()[i]] = task;
  }
}

std::vector<Fragment> WorkDivision::Of(uint32_t task) const {
  std::vector<Fragment> out;
  for (size_t i = 0; i < fragments_.size(); ++i) {
    if (task_[i] == task) out.push_back(fragments_[i]);
  }
  return out;
}

double Imbalance(const std::vector<TaskLoad>& loads, uint64_t TaskLoad::*what) {
  uint64_t largest = 0, total = 0;
  for (const TaskLoad& load : loads) {
    largest = std::max(largest, load.*what);
    total += load.*what;
  }
  if (total == 0) return 1;
  const double mean = static_cast<double>(total) / static_cast<double>(loads.size());
  return static_cast<double>(largest) / mean;
}

}  // namespace moepack
