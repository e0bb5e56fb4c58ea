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

#include "tests/peer/stock_llama.h"

namespace {

using peer::Fail;
using peer::Find;

struct Stock : peer::Llama {
  explicit Stock(const std::filesystem::path& directory) : Llama(directory) {
    Find(library, "llama_set_n_threads", set_threads);
    Find(library, "llama_synchronize", synchronize);
  }

  void (*set_threads)(void* context, int32_t threads, int32_t batch_threads);
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
    peer::ContextParams params = stock.ParamsFor(static_cast<uint32_t>(most));
    params.context = 1024;
    context_ = stock.Open(model, params);
  }

  void SetThreads(int32_t threads) { stock_.set_threads(context_, threads, threads); }
  void Clear() { stock_.Clear(context_); }

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
  peer::Batch batch_;
  void* context_ = nullptr;
};

}  // namespace

int main(int count, char** words) {
  if (count != 7) Fail("usage: stock-speed LIBRARIES MODEL THREADS PROMPT DECODED OUT");
  const Stock stock(words[1]);
  void* const model = stock.Load(words[2]);
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
