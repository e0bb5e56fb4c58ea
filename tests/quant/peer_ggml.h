// ggml's own encoders and decoders, loaded from the npm package that ships llama.cpp's libraries
// (tests/peer).
#pragma once

#include <dlfcn.h>

#include <csetjmp>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

#include "quant/format.h"

namespace quant {

class PeerGgml {
 public:
  using DequantizeRow = void (*)(const void* blocks, float* out, int64_t values);

  PeerGgml() {
    const std::string path = Path();
    if (!std::filesystem::exists(path)) {
      missing_ = path + " is not there; run `npm ci` in tests/peer or set MOEPACK_PEER_GGML";
      return;
    }
    // Stays loaded, because it has its own threads.
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr) quantize_ = Symbol<QuantizeChunk>("ggml_quantize_chunk");
    if (quantize_ == nullptr) broken_ = path + ": " + dlerror();
    if (quantize_ != nullptr) Symbol<SetAbortCallback>("ggml_set_abort_callback")(LeaveEncode);
  }

  // Why it cannot be used, or "": the library is not on this machine, or is not the one we know.
  const std::string& missing() const { return missing_; }
  const std::string& broken() const { return broken_; }
  bool usable() const { return quantize_ != nullptr; }

  // Like Encoder of format.h, for rows of `row_values` values. Returns false where ggml would end
  // the program: in grid types, a search that overflows finds no point. REQUIRES: usable().
  bool Encode(const Format& format, std::span<const float> values, size_t row_values,
              std::span<const float> importance, std::span<std::byte> out) const {
    if (setjmp(EncodeCall()) != 0) return false;
    quantize_(format.ggml_type, values.data(), out.data(), 0,
              static_cast<int64_t>(values.size() / row_values), static_cast<int64_t>(row_values),
              importance.empty() ? nullptr : importance.data());
    return true;
  }

  // Whether ggml refuses to encode the type without importance.
  bool NeedsImportance(const Format& format) const {
    return Symbol<bool (*)(int)>("ggml_quantize_requires_imatrix")(format.ggml_type);
  }

  // Null if ggml has no function of its own for the type.
  DequantizeRow Dequantizer(const Format& format) const {
    if (format.name == "f16") return Symbol<DequantizeRow>("ggml_fp16_to_fp32_row");
    if (format.name == "bf16") return Symbol<DequantizeRow>("ggml_bf16_to_fp32_row");
    return Symbol<DequantizeRow>("dequantize_row_" + std::string(format.name));
  }

 private:
  using QuantizeChunk = size_t (*)(int type, const float* values, void* out, int64_t start,
                                   int64_t rows, int64_t row_values, const float* importance);

  using SetAbortCallback = void* (*)(void (*)(const char* message));

  // Where Encode continues if ggml aborts. ggml's encoders are C and own nothing.
  static std::jmp_buf& EncodeCall() {
    static std::jmp_buf call;
    return call;
  }
  static void LeaveEncode(const char*) { std::longjmp(EncodeCall(), 1); }

  static std::string Path() {
    if (const char* path = std::getenv("MOEPACK_PEER_GGML")) return path;
    return MOEPACK_SOURCE_DIR
        "/tests/peer/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libggml-base.so";
  }

  template <class Function>
  Function Symbol(const std::string& name) const {
    return reinterpret_cast<Function>(dlsym(library_, name.c_str()));
  }

  std::string missing_, broken_;
  void* library_ = nullptr;
  QuantizeChunk quantize_ = nullptr;
};

}  // namespace quant
