// Functions of the libraries in llama.cpp's npm package, found by name.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

namespace peer {

[[noreturn]] inline void Fail(const std::string& message) {
  std::cerr << message << "\n";
  std::exit(1);
}

// The library in the directory whose name begins with `prefix`.
inline void* OpenLibrary(const std::filesystem::path& directory, const std::string& prefix) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || entry.path().extension() != ".so") continue;
    if (void* library = dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
    Fail(dlerror());
  }
  Fail((directory / prefix).string() + "*.so: not found");
}

template <class Function>
void Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) Fail(std::string(name) + ": not found");
}

// llama_model_quantize_params, with room for fields that later versions have at the end.
struct QuantizeParams {
  int32_t threads, type, output_type, embedding_type;
  bool allow_requantize, quantize_output, flags[6];
  const void* imatrix;  // llama_model_imatrix_data, ends with a name that is null
  unsigned char rest[504];
};

inline QuantizeParams CheckedParams(QuantizeParams params) {
  if (params.allow_requantize || !params.quantize_output || params.imatrix != nullptr)
    Fail("llama_model_quantize_params: another layout than in v0.5.0");
  params.threads = 2;
  return params;
}

}  // namespace peer
