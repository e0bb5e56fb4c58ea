// How fast llama.cpp runs a GGUF, by way of the libraries that its npm package ships, in tokens per
// second of processor time of all its threads. The prompt runs on THREADS threads; single tokens on
// one, because more of them spin while they wait for each other.
//
// llama.cpp computes what the asked logits need and nothing else: in the last layer the experts run
// only for tokens whose logits are asked for. llama-bench asks for those of the prompt's last
// token. Of a model of two layers that leaves out almost half of the work, so the prompt is
// measured both ways.
// usage: stock-speed LIBRARIES MODEL THREADS PROMPT DECODED OUT
// writes {"prompt": ..., "prompt_without_logits": ..., "decode": ...}
#include <time.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/peer/llama_libraries.h"

namespace {

using peer::Fail;
using peer::Find;

// The parts of llama.h that are needed.
struct ModelParams {
  unsigned char bytes[512];
};
struct ContextParams {
  uint32_t context, batch, micro_batch;
  unsigned char rest[600];
};
struct Batch {
  int32_t count;
  int32_t* tokens;
  float* embeddings;
  int32_t *positions, *sequence_counts;
  int32_t** sequences;
  int8_t* logits;
};

struct Stock {
  explicit Stock(const std::filesystem::path& directory) {
    void* const backends = peer::OpenLibrary(directory, "libggml.");
    Find(backends, "ggml_backend_load_all_from_path", load_backends);
    void* const llama = peer::OpenLibrary(directory, "libllama.");
    Find(llama, "llama_log_set", set_log);
    Find(llama, "llama_backend_init", init);
    Find(llama, "llama_model_default_params", model_params);
    Find(llama, "llama_model_load_from_file", load_model);
    Find(llama, "llama_model_get_vocab", vocabulary_of);
    Find(llama, "llama_vocab_n_tokens", count_tokens);
    Find(llama, "llama_context_default_params", context_params);
    Find(llama, "llama_init_from_model", open_context);
    Find(llama, "llama_set_n_threads", set_threads);
    Find(llama, "llama_get_memory", memory_of);
    Find(llama, "llama_memory_clear", clear);
    Find(llama, "llama_batch_init", make_batch);
    Find(llama, "llama_decode", decode);
    Find(llama, "llama_synchronize", synchronize);
    set_log([](int, const char*, void*) {}, nullptr);
    load_backends(directory.c_str());
    init();
  }

  void (*load_backends)(const char*);
  void (*set_log)(void (*log)(int level, const char* text, void* user), void* user);
  void (*init)();
  ModelParams (*model_params)();
  void* (*load_model)(const char*, ModelParams);
  const void* (*vocabulary_of)(const void* model);
  int32_t (*count_tokens)(const void* vocabulary);
  ContextParams (*context_params)();
  void* (*open_context)(void* model, ContextParams);
  void (*set_threads)(void* context, int32_t threads, int32_t batch_threads);
  void* (*memory_of)(void* context);
  void (*clear)(void* memory, bool data);
  Batch (*make_batch)(int32_t tokens, int32_t embedding, int32_t sequences);
  int32_t (*decode)(void* context, Batch);
  void (*synchronize)(void* context);
};

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Run {
 public:
  Run(const Stock& stock, void* model, int32_t most)
      : stock_(stock),
        tokens_(stock.count_tokens(stock.vocabulary_of(model))),
        batch_(stock.make_batch(most, 0, 1)) {
    ContextParams params = stock.context_params();
    params.context = 1024;
    params.batch = params.micro_batch = static_cast<uint32_t>(most);
    context_ = stock.open_context(model, params);
    if (context_ == nullptr) Fail("llama_init_from_model: failed");
  }

  void SetThreads(int32_t threads) { stock_.set_threads(context_, threads, threads); }
  void Clear() { stock_.clear(stock_.memory_of(context_), true); }

  // Meaningless tokens from position `first` on.
  void Feed(int32_t first, int32_t count, bool all_logits) {
    batch_.count = count;
    for (int32_t i = 0; i < count; ++i) {
      batch_.tokens[i] = ((first + i) * 7919 + 13) % tokens_;
      batch_.positions[i] = first + i;
      batch_.sequence_counts[i] = 1;
      batch_.sequences[i][0] = 0;
      batch_.logits[i] = all_logits || i + 1 == count ? 1 : 0;
    }
    if (stock_.decode(context_, batch_) != 0) Fail("llama_decode: failed");
    stock_.synchronize(context_);
  }

  double PromptRate(int32_t count, bool all_logits) {
    Clear();
    const double start = ProcessorSeconds();
    Feed(0, count, all_logits);
    return count / (ProcessorSeconds() - start);
  }

  double DecodeRate(int32_t count) {
    constexpr int32_t kBefore = 16;
    Clear();
    Feed(0, kBefore, false);
    const double start = ProcessorSeconds();
    for (int32_t i = 0; i < count; ++i) Feed(kBefore + i, 1, true);
    return count / (ProcessorSeconds() - start);
  }

 private:
  const Stock& stock_;
  int32_t tokens_;
  Batch batch_;
  void* context_ = nullptr;
};

}  // namespace

int main(int count, char** words) {
  if (count != 7) Fail("usage: stock-speed LIBRARIES MODEL THREADS PROMPT DECODED OUT");
  const Stock stock(words[1]);
  void* const model = stock.load_model(words[2], stock.model_params());
  if (model == nullptr) Fail("llama_model_load_from_file: failed");
  const int32_t prompt = std::atoi(words[4]);
  Run run(stock, model, prompt);
  run.SetThreads(std::atoi(words[3]));
  run.Feed(0, prompt, true);  // pages and caches
  const double all = run.PromptRate(prompt, true), last = run.PromptRate(prompt, false);
  run.SetThreads(1);
  const double decoded = run.DecodeRate(std::atoi(words[5]));
  std::ofstream out(words[6]);
  out << "{\"prompt\": " << all << ", \"prompt_without_logits\": " << last
      << ", \"decode\": " << decoded << "}\n";
  if (!out.flush()) Fail(std::string(words[6]) + ": cannot be written");
  std::_Exit(0);  // what llama.cpp allocated is released with the process
}
