// The parts of llama.cpp's libraries that evaluate tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/peer/llama_libraries.h"

namespace peer {

// The parts of llama.h that are needed.
struct ModelParams {
  unsigned char bytes[512];
};

struct ContextParams {
  uint32_t context, batch, micro_batch;
  unsigned char until_attention[52 - 12];
  int32_t flash_attention;  // -1: where it is faster
  unsigned char until_callback[88 - 56];
  bool (*callback)(const void* tensor, bool ask, void* user);
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

struct Llama {
  // Loads the libraries of a directory, and starts them.
  explicit Llama(const std::filesystem::path& directory) {
    void* const backends = OpenLibrary(directory, "libggml.");
    Find(backends, "ggml_backend_load_all_from_path", load_backends);
    library = OpenLibrary(directory, "libllama.");
    Find(library, "llama_log_set", set_log);
    Find(library, "llama_backend_init", init);
    Find(library, "llama_model_default_params", model_params);
    Find(library, "llama_model_load_from_file", load_model);
    Find(library, "llama_model_get_vocab", vocabulary_of);
    Find(library, "llama_vocab_n_tokens", count_tokens);
    Find(library, "llama_context_default_params", context_params);
    Find(library, "llama_init_from_model", open_context);
    Find(library, "llama_get_memory", memory_of);
    Find(library, "llama_memory_clear", clear_memory);
    Find(library, "llama_batch_init", make_batch);
    Find(library, "llama_decode", decode);
    Find(library, "llama_get_logits", logits_of);
    set_log([](int, const char*, void*) {}, nullptr);
    load_backends(directory.c_str());
    init();
  }

  void* Load(const std::string& file) const {
    void* const model = load_model(file.c_str(), model_params());
    if (model == nullptr) Fail(file + ": llama.cpp does not load it");
    return model;
  }
  // For so many tokens at once.
  ContextParams ParamsFor(uint32_t tokens) const {
    ContextParams params = context_params();
    // GGML_TYPE_F16 twice, right after the callback.
    if (params.flash_attention != -1 || params.callback != nullptr || params.key_type != 1 ||
        params.value_type != 1)
      Fail("llama_context_params: another layout than in v0.5.0");
    params.context = params.batch = params.micro_batch = tokens;
    return params;
  }
  void* Open(void* model, const ContextParams& params) const {
    void* const context = open_context(model, params);
    if (context == nullptr) Fail("llama_init_from_model: failed");
    return context;
  }
  void Clear(void* context) const { clear_memory(memory_of(context), true); }

  void* library;
  void (*load_backends)(const char*);
  void (*set_log)(void (*log)(int level, const char* text, void* user), void* user);
  void (*init)();
  ModelParams (*model_params)();
  void* (*load_model)(const char*, ModelParams);
  const void* (*vocabulary_of)(const void* model);
  int32_t (*count_tokens)(const void* vocabulary);
  ContextParams (*context_params)();
  void* (*open_context)(void* model, ContextParams);
  void* (*memory_of)(void* context);
  void (*clear_memory)(void* memory, bool data);
  Batch (*make_batch)(int32_t tokens, int32_t embedding, int32_t sequences);
  int32_t (*decode)(void* context, Batch);
  const float* (*logits_of)(void* context);
};

}  // namespace peer
