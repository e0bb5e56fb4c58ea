// What llama.cpp's own tools do with our files, by way of the libraries that its npm package ships:
// llama-quantize is one function of libllama; llama-gguf-split is not in the package, so its two
// operations are written out here, on the GGUF writer of libggml-base that it uses too.
// usage: stock-tools LIBRARIES quantize IN OUT FTYPE
//        stock-tools LIBRARIES merge FIRST OUT
//        stock-tools LIBRARIES split IN PREFIX TENSORS_PER_FILE
// LIBRARIES is the directory of libggml-base.so and libllama*.so. Exit status 1 when llama.cpp says
// no.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "tests/peer/llama_libraries.h"

// The parts of ggml.h, gguf.h and llama.h that are needed.
struct gguf_context;
struct ggml_context;
struct ggml_tensor;

// What llama.cpp allocates is released when the process ends, right after its work. LeakSanitizer
// calls this.
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return 1; }

namespace {

using peer::Fail;
using peer::Find;
using peer::OpenLibrary;
using peer::QuantizeParams;
namespace fs = std::filesystem;

constexpr size_t kAlignment = 32;  // GGUF_DEFAULT_ALIGNMENT, which llama-gguf-split pads with
constexpr size_t kMaxPath = 4096;

struct GgufInitParams {
  bool no_alloc;
  ggml_context** context;
};

struct Libraries {
  explicit Libraries(const fs::path& directory) {
    void* const ggml = OpenLibrary(directory, "libggml-base");
    Find(ggml, "gguf_init_empty", init_empty);
    Find(ggml, "gguf_init_from_file", init_from_file);
    Find(ggml, "gguf_set_kv", set_kv);
    Find(ggml, "gguf_set_val_u16", set_u16);
    Find(ggml, "gguf_set_val_i32", set_i32);
    Find(ggml, "gguf_find_key", find_key);
    Find(ggml, "gguf_get_val_u16", get_u16);
    Find(ggml, "gguf_get_n_tensors", tensor_count);
    Find(ggml, "gguf_get_tensor_name", tensor_name);
    Find(ggml, "gguf_get_tensor_offset", tensor_offset);
    Find(ggml, "gguf_get_data_offset", data_offset);
    Find(ggml, "gguf_add_tensor", add_tensor);
    Find(ggml, "gguf_write_to_file", write_to_file);
    Find(ggml, "ggml_get_tensor", get_tensor);
    Find(ggml, "ggml_nbytes", bytes_of);
    void* const llama = OpenLibrary(directory, "libllama.");
    Find(llama, "llama_split_path", split_path);
    Find(llama, "llama_split_prefix", split_prefix);
    Find(llama, "llama_backend_init", backend_init);
    Find(llama, "llama_model_quantize_default_params", default_params);
    Find(llama, "llama_model_quantize", quantize);
  }

  gguf_context* (*init_empty)();
  gguf_context* (*init_from_file)(const char*, GgufInitParams);
  void (*set_kv)(gguf_context*, const gguf_context*);
  void (*set_u16)(gguf_context*, const char*, uint16_t);
  void (*set_i32)(gguf_context*, const char*, int32_t);
  int64_t (*find_key)(const gguf_context*, const char*);
  uint16_t (*get_u16)(const gguf_context*, int64_t);
  int64_t (*tensor_count)(const gguf_context*);
  const char* (*tensor_name)(const gguf_context*, int64_t);
  size_t (*tensor_offset)(const gguf_context*, int64_t);
  size_t (*data_offset)(const gguf_context*);
  void (*add_tensor)(gguf_context*, const ggml_tensor*);
  bool (*write_to_file)(const gguf_context*, const char*, bool only_header);
  ggml_tensor* (*get_tensor)(ggml_context*, const char*);
  size_t (*bytes_of)(const ggml_tensor*);
  int (*split_path)(char*, size_t, const char*, int, int);
  int (*split_prefix)(char*, size_t, const char*, int, int);
  void (*backend_init)();
  QuantizeParams (*default_params)();
  uint32_t (*quantize)(const char*, const char*, const QuantizeParams*);
};

// A GGUF file opened for reading.
struct Source {
  Source(const Libraries& use, const std::string& path) : libraries(use), file(path) {
    header = use.init_from_file(path.c_str(), {true, &tensors});
    if (header == nullptr || !file) Fail(path + ": llama.cpp does not read it");
  }
  int64_t count() const { return libraries.tensor_count(header); }
  const ggml_tensor* Tensor(int64_t i) const {
    return libraries.get_tensor(tensors, libraries.tensor_name(header, i));
  }
  // The tensor's bytes and the zeros after them.
  std::vector<char> Read(int64_t i) {
    const size_t bytes = libraries.bytes_of(Tensor(i));
    std::vector<char> data((bytes + kAlignment - 1) / kAlignment * kAlignment, '\0');
    file.seekg(static_cast<std::streamoff>(libraries.data_offset(header) +
                                           libraries.tensor_offset(header, i)));
    if (!file.read(data.data(), static_cast<std::streamsize>(bytes))) Fail("read failed");
    return data;
  }

  const Libraries& libraries;
  std::ifstream file;
  ggml_context* tensors = nullptr;
  gguf_context* header = nullptr;
};

// The header first, then each tensor padded to 32, whatever alignment the header states.
class Writer {
 public:
  Writer(const Libraries& use, const std::string& path, const gguf_context* header) {
    if (!use.write_to_file(header, path.c_str(), true)) Fail(path + ": cannot be written");
    file_.open(path, std::ios::app | std::ios::binary);
  }
  void Append(const std::vector<char>& data) {
    if (!file_.write(data.data(), static_cast<std::streamsize>(data.size()))) Fail("write failed");
  }

 private:
  std::ofstream file_;
};

void Quantize(const Libraries& use, const std::vector<std::string>& words) {
  use.backend_init();
  QuantizeParams params = peer::CheckedParams(use.default_params());
  params.type = std::atoi(words.at(2).c_str());
  if (use.quantize(words.at(0).c_str(), words.at(1).c_str(), &params) != 0)
    Fail(words.at(0) + ": llama.cpp does not quantize it");
}

void Merge(const Libraries& use, const std::vector<std::string>& words) {
  const std::string& first = words.at(0);
  std::vector<Source> sources;
  sources.emplace_back(use, first);
  const int64_t key = use.find_key(sources[0].header, "split.count");
  if (key < 0) Fail(first + ": no split.count");
  const int count = use.get_u16(sources[0].header, key);
  char prefix[kMaxPath] = {}, path[kMaxPath] = {};
  if (use.split_prefix(prefix, sizeof prefix, first.c_str(), 0, count) == 0)
    Fail(first + ": not the name of a first file");
  for (int i = 1; i < count; ++i) {
    use.split_path(path, sizeof path, prefix, i, count);
    sources.emplace_back(use, path);
  }
  gguf_context* const header = use.init_empty();
  use.set_u16(sources[0].header, "split.count", 0);
  use.set_kv(header, sources[0].header);  // general.alignment among them
  for (const Source& source : sources) {
    for (int64_t i = 0; i < source.count(); ++i) use.add_tensor(header, source.Tensor(i));
  }
  Writer writer(use, words.at(1), header);
  for (Source& source : sources) {
    for (int64_t i = 0; i < source.count(); ++i) writer.Append(source.Read(i));
  }
}

void Split(const Libraries& use, const std::vector<std::string>& words) {
  Source source(use, words.at(0));
  const int64_t each = std::atoll(words.at(2).c_str());
  if (each < 1) Fail("expected at least one tensor per file");
  const int64_t files = (source.count() + each - 1) / each;
  for (int64_t i = 0; i < files; ++i) {
    gguf_context* const header = use.init_empty();
    if (i == 0) use.set_kv(header, source.header);
    use.set_u16(header, "split.no", static_cast<uint16_t>(i));
    use.set_u16(header, "split.count", static_cast<uint16_t>(files));
    use.set_i32(header, "split.tensors.count", static_cast<int32_t>(source.count()));
    const int64_t end = std::min(source.count(), (i + 1) * each);
    for (int64_t t = i * each; t < end; ++t) use.add_tensor(header, source.Tensor(t));
    char path[kMaxPath] = {};
    use.split_path(path, sizeof path, words.at(1).c_str(), static_cast<int>(i),
                   static_cast<int>(files));
    Writer writer(use, path, header);
    for (int64_t t = i * each; t < end; ++t) writer.Append(source.Read(t));
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + std::min(count, 3), arguments + count);
  const std::string verb = count > 2 ? arguments[2] : "";
  if (words.size() != (verb == "merge" ? 2u : 3u)) Fail("usage: see the head of stock_tools.cc");
  const Libraries libraries(arguments[1]);
  if (verb == "quantize") {
    Quantize(libraries, words);
  } else if (verb == "merge") {
    Merge(libraries, words);
  } else if (verb == "split") {
    Split(libraries, words);
  } else {
    Fail("unknown operation " + verb);
  }
}
