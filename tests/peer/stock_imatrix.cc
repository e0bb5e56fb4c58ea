// Importance matrices of ours in the hands of llama.cpp, by way of the libraries that its npm
// package ships. llama-imatrix itself is not among them, so what it does is written out here: while
// llama.cpp evaluates tokens, a callback sums the squares of the inputs of every product of a
// layer. What llama-quantize does with such a file is two functions of the libraries: the reader of
// libllama-common and the quantizer of libllama.
// usage: stock-imatrix LIBRARIES compare MODEL IMATRIX CHUNK IDS
//        stock-imatrix LIBRARIES quantize IMATRIX IN OUT FTYPE
// IMATRIX is "none" to quantize without one. IDS is a file of token ids, of which whole chunks are
// evaluated. "compare" prints one JSON object. Exit status 1 when llama.cpp says no.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/peer/llama_libraries.h"

// What llama.cpp allocates is released when the process ends, right after its work. LeakSanitizer
// calls this.
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return 1; }

// As in llama.cpp's common/imatrix-loader.h; the name is part of the function's mangled name.
struct common_imatrix_entry {
  std::vector<float> sums;
  std::vector<int64_t> counts;
};
struct common_imatrix {
  std::map<std::string, common_imatrix_entry> entries;
  std::vector<std::string> datasets;
  int32_t chunk_count = 0, chunk_size = 0;
  bool is_legacy = false, has_metadata = false;
};

namespace {

using peer::Fail;
using peer::Find;

constexpr const char* kReader =
    "_Z19common_imatrix_loadRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEER14common_"
    "imatrix";

// The parts of llama.h and ggml.h that are needed.
struct Tensor {
  int32_t type;
  void* buffer;
  int64_t ne[4];
  size_t nb[4];
  int32_t op, op_params[16], flags;
  const Tensor* src[10];
  void* view_source;
  size_t view_offset;
  const char* data;
  char name[64];
};

using Callback = bool (*)(const Tensor*, bool ask, void* user);

struct ModelParams {
  unsigned char bytes[512];
};

struct ContextParams {
  uint32_t context, batch, micro_batch;
  unsigned char until_attention[52 - 12];
  int32_t flash_attention;  // -1: where it is faster
  unsigned char until_callback[88 - 56];
  Callback callback;
  void* user;
  int32_t key_type, value_type;
  unsigned char rest[512];
};

struct Batch {
  int32_t count;
  int32_t* tokens;
  float* embeddings;
  int32_t *positions, *sequence_counts;
  int32_t** sequences;
  int8_t* logits;
};

struct ImatrixData {
  const char* name;
  const float* data;
  size_t size;
};

struct Stock {
  explicit Stock(const std::filesystem::path& directory) {
    void* const ggml = peer::OpenLibrary(directory, "libggml-base");
    Find(ggml, "ggml_op_desc", describe);
    void* const backends = peer::OpenLibrary(directory, "libggml.");
    Find(backends, "ggml_backend_load_all_from_path", load_backends);
    void* const llama = peer::OpenLibrary(directory, "libllama.");
    Find(llama, "llama_backend_init", init);
    Find(llama, "llama_model_default_params", model_params);
    Find(llama, "llama_model_load_from_file", load_model);
    Find(llama, "llama_context_default_params", context_params);
    Find(llama, "llama_init_from_model", open_context);
    Find(llama, "llama_get_memory", memory_of);
    Find(llama, "llama_memory_clear", clear);
    Find(llama, "llama_batch_init", make_batch);
    Find(llama, "llama_decode", decode);
    Find(llama, "llama_model_quantize_default_params", quantize_params);
    Find(llama, "llama_model_quantize", quantize);
    Find(peer::OpenLibrary(directory, "libllama-common"), kReader, read_imatrix);
    load_backends(directory.c_str());
    init();
  }

  const char* (*describe)(const Tensor*);
  void (*load_backends)(const char*);
  void (*init)();
  ModelParams (*model_params)();
  void* (*load_model)(const char*, ModelParams);
  ContextParams (*context_params)();
  void* (*open_context)(void* model, ContextParams);
  void* (*memory_of)(void* context);
  void (*clear)(void* memory, bool data);
  Batch (*make_batch)(int32_t tokens, int32_t embedding, int32_t sequences);
  int32_t (*decode)(void* context, Batch);
  peer::QuantizeParams (*quantize_params)();
  uint32_t (*quantize)(const char*, const char*, const peer::QuantizeParams*);
  bool (*read_imatrix)(const std::string&, common_imatrix&);
};

// Sums squares as llama-imatrix does, but in doubles.
class Collector {
 public:
  explicit Collector(const Stock& stock) : stock_(stock) {}

  struct Sums {
    std::vector<double> sums;
    std::vector<int64_t> counts;
  };

  static bool Call(const Tensor* tensor, bool ask, void* user) {
    return static_cast<Collector*>(user)->See(*tensor, ask);
  }
  const std::map<std::string, Sums>& found() const { return found_; }

 private:
  bool See(const Tensor& product, bool ask) {
    const bool chosen = Is(product, "MUL_MAT_ID");
    if (!chosen && !Is(product, "MUL_MAT")) return !ask;
    const std::string name = product.src[0]->name;
    if (!name.starts_with("blk.")) return !ask;
    if (ask) return true;
    chosen ? AddChosen(product, found_[name]) : AddAll(product, found_[name]);
    return true;
  }

  bool Is(const Tensor& tensor, const char* operation) const {
    return std::strcmp(stock_.describe(&tensor), operation) == 0;
  }

  static void AddRow(const Tensor& inputs, int64_t row, int64_t plane, double* sums) {
    const char* at = inputs.data + static_cast<size_t>(row) * inputs.nb[1] +
                     static_cast<size_t>(plane) * inputs.nb[2];
    const auto* values = reinterpret_cast<const float*>(at);
    for (int64_t i = 0; i < inputs.ne[0]; ++i) sums[i] += double{values[i]} * values[i];
  }

  // The inputs of experts: columns, places among a token's choices or one for all, tokens.
  void AddChosen(const Tensor& product, Sums& found) {
    const Tensor &inputs = *product.src[1], &ids = *product.src[2];
    const auto experts = static_cast<size_t>(product.src[0]->ne[2]);
    found.sums.resize(static_cast<size_t>(inputs.ne[0]) * experts);
    found.counts.resize(experts);
    for (int64_t token = 0; token < inputs.ne[2]; ++token) {
      for (int64_t rank = 0; rank < ids.ne[0]; ++rank) {
        const char* at = ids.data + static_cast<size_t>(token) * ids.nb[1] +
                         static_cast<size_t>(rank) * ids.nb[0];
        const auto expert = static_cast<size_t>(*reinterpret_cast<const int32_t*>(at));
        AddRow(inputs, rank % inputs.ne[1], token,
               found.sums.data() + expert * static_cast<size_t>(inputs.ne[0]));
        ++found.counts.at(expert);
      }
    }
  }

  // Other inputs: columns, rows, and matrices if the weight has several.
  void AddAll(const Tensor& product, Sums& found) {
    const Tensor& inputs = *product.src[1];
    const int64_t matrices = product.src[0]->ne[2];
    found.sums.resize(static_cast<size_t>(inputs.ne[0] * matrices));
    found.counts.resize(1);
    for (int64_t plane = 0; plane < inputs.ne[2]; ++plane) {
      for (int64_t row = 0; row < inputs.ne[1]; ++row)
        AddRow(inputs, row, plane, found.sums.data() + plane % matrices * inputs.ne[0]);
    }
    found.counts[0] += inputs.ne[1] * inputs.ne[2] / matrices;
  }

  const Stock& stock_;
  std::map<std::string, Sums> found_;
};

void Evaluate(const Stock& stock, const std::string& file, int32_t chunk,
              const std::vector<int32_t>& ids, Collector& collector) {
  void* const model = stock.load_model(file.c_str(), stock.model_params());
  if (model == nullptr) Fail(file + ": llama.cpp does not load it");
  ContextParams params = stock.context_params();
  // GGML_TYPE_F16 twice, right after the callback.
  if (params.flash_attention != -1 || params.callback != nullptr || params.key_type != 1 ||
      params.value_type != 1)
    Fail("llama_context_params: another layout than in v0.5.0");
  params.context = params.batch = params.micro_batch = static_cast<uint32_t>(chunk);
  // All in F32, because rounding changes near ties among experts.
  params.flash_attention = 0;
  params.key_type = params.value_type = 0;
  params.callback = Collector::Call;
  params.user = &collector;
  void* const context = stock.open_context(model, params);
  if (context == nullptr) Fail(file + ": llama.cpp has no context for it");
  Batch batch = stock.make_batch(chunk, 0, 1);
  batch.count = chunk;
  for (size_t first = 0; first + static_cast<size_t>(chunk) <= ids.size();
       first += static_cast<size_t>(chunk)) {
    stock.clear(stock.memory_of(context), true);
    for (int32_t i = 0; i < chunk; ++i) {
      batch.tokens[i] = ids[first + static_cast<size_t>(i)];
      batch.positions[i] = i;
      batch.sequence_counts[i] = 1;
      batch.sequences[i][0] = 0;
      batch.logits[i] = 1;
    }
    if (stock.decode(context, batch) != 0) Fail(file + ": llama.cpp does not evaluate it");
  }
}

common_imatrix Read(const Stock& stock, const std::string& file) {
  common_imatrix imatrix;
  if (!stock.read_imatrix(file, imatrix) || imatrix.is_legacy || !imatrix.has_metadata)
    Fail(file + ": llama.cpp does not read it as an importance matrix");
  return imatrix;
}

// The largest difference of a sum, relative to the sum itself or, if that is larger, to the mean of
// the sums of its row.
double Difference(const Collector::Sums& stock, const common_imatrix_entry& ours) {
  const size_t width = stock.sums.size() / stock.counts.size();
  double largest = 0;
  for (size_t row = 0; row < stock.sums.size(); row += width) {
    double mean = 0;
    for (size_t i = row; i < row + width; ++i) mean += stock.sums[i] / static_cast<double>(width);
    if (mean == 0) mean = 1;  // an expert without tokens
    for (size_t i = row; i < row + width; ++i)
      largest = std::max(
          largest, std::abs(stock.sums[i] - double{ours.sums[i]}) / std::max(stock.sums[i], mean));
  }
  return largest;
}

void Compare(const Stock& stock, const std::vector<std::string>& words) {
  std::ifstream file(words.at(3));
  const std::vector<int32_t> ids{std::istream_iterator<int32_t>(file), {}};
  Collector collector(stock);
  Evaluate(stock, words.at(0), std::atoi(words.at(2).c_str()), ids, collector);
  const common_imatrix ours = Read(stock, words.at(1));
  double largest = 0;
  size_t same_counts = 0, missing = 0;
  for (const auto& [name, found] : collector.found()) {
    const auto entry = ours.entries.find(name);
    if (entry == ours.entries.end() || entry->second.sums.size() != found.sums.size()) {
      std::cerr << name << ": not in our file, or of another size\n";
      ++missing;
      continue;
    }
    same_counts += entry->second.counts == found.counts ? 1 : 0;
    largest = std::max(largest, Difference(found, entry->second));
  }
  std::cout << "{\"entries\": " << ours.entries.size()
            << ", \"stock\": " << collector.found().size() << ", \"missing\": " << missing
            << ", \"same_counts\": " << same_counts << ", \"difference\": " << largest
            << ", \"chunks\": " << ours.chunk_count << ", \"chunk\": " << ours.chunk_size << "}\n";
}

// As llama-quantize: means, and ones for experts without data.
std::vector<float> MeansOf(const common_imatrix_entry& entry) {
  std::vector<float> means = entry.sums;
  const size_t width = entry.sums.size() / entry.counts.size();
  for (size_t i = 0; i < means.size(); ++i) {
    const auto count = static_cast<float>(entry.counts[i / width]);
    means[i] = count > 0 ? means[i] / count : 1;
  }
  return means;
}

void Quantize(const Stock& stock, const std::vector<std::string>& words) {
  const bool none = words.at(0) == "none";
  const common_imatrix imatrix = none ? common_imatrix() : Read(stock, words.at(0));
  std::vector<std::vector<float>> means;
  std::vector<ImatrixData> data;
  for (const auto& [name, entry] : imatrix.entries) {
    means.push_back(MeansOf(entry));
    data.push_back({name.c_str(), means.back().data(), means.back().size()});
  }
  data.push_back({});
  peer::QuantizeParams params = peer::CheckedParams(stock.quantize_params());
  params.type = std::atoi(words.at(3).c_str());
  if (!none) params.imatrix = data.data();
  if (stock.quantize(words.at(1).c_str(), words.at(2).c_str(), &params) != 0)
    Fail(words.at(1) + ": llama.cpp does not quantize it");
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + std::min(count, 3), arguments + count);
  const std::string verb = count > 2 ? arguments[2] : "";
  if (words.size() != 4) Fail("usage: see the head of stock_imatrix.cc");
  const Stock stock(arguments[1]);
  if (verb == "compare") {
    Compare(stock, words);
  } else if (verb == "quantize") {
    Quantize(stock, words);
  } else {
    Fail("unknown operation " + verb);
  }
}
