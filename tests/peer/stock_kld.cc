// The KL divergence of a GGUF from a base as llama.cpp's perplexity tool states it, by way of the
// libraries that its npm package ships. The tool itself is not among them, so what it does is
// written out here, after llama.cpp's tools/perplexity/perplexity.cpp (--kl-divergence-base,
// --kl-divergence; read at 050fc7f32de1): tokens are cut into chunks of the context, of which only
// the second half is scored. Of the base it keeps logarithms of probabilities in 16 bits: even
// steps between the largest and what is 16 below it, or the smallest if that is more. Tokens whose
// logarithm is then not above -16 do not count.
// usage: stock-kld LIBRARIES BASE CONTEXT IDS MODEL...
// IDS is a file of token ids, of which whole chunks are evaluated. Prints one mean a line.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "tests/peer/stock_llama.h"

namespace {

using peer::Fail;

constexpr float kLeastLogarithm = -16;
constexpr float kSteps = 65535;

// What the tool keeps of the base at a position.
struct KeptLogarithms {
  float step = 0, least = 0;
  std::vector<uint16_t> places;
  float At(size_t token) const { return step * places[token] + least; }
};

// The logarithm of the sum of exponentials.
float LogSum(std::span<const float> logits, float most) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  return static_cast<float>(std::log(sum));
}

KeptLogarithms Keep(std::span<const float> logits) {
  const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
  const float most = *high, least = std::max(*low, most + kLeastLogarithm);
  KeptLogarithms kept{(most - least) / kSteps, least - most - LogSum(logits, most), {}};
  for (const float logit : logits) {
    const float place = logit > least ? std::nearbyint((logit - least) / kept.step) : 0;
    kept.places.push_back(static_cast<uint16_t>(place));
  }
  return kept;
}

double Divergence(const KeptLogarithms& base, std::span<const float> logits) {
  const float most = *std::max_element(logits.begin(), logits.end());
  const float whole = most + LogSum(logits, most);
  double sum = 0;
  for (size_t token = 0; token < logits.size(); ++token) {
    const float logarithm = base.At(token);
    if (logarithm > kLeastLogarithm)
      sum += std::exp(logarithm) * (logarithm - (logits[token] - whole));
  }
  return sum;
}

class Chunks {
 public:
  Chunks(const peer::Llama& llama, int32_t context, std::vector<int32_t> ids)
      : llama_(llama), context_(context), ids_(std::move(ids)) {}

  // Calls `use` with the logits of every scored position.
  template <class Use>
  void Run(const std::string& file, const Use& use) const {
    void* const model = llama_.Load(file);
    void* const context = llama_.Open(model, llama_.ParamsFor(static_cast<uint32_t>(context_)));
    const auto width = static_cast<size_t>(llama_.count_tokens(llama_.vocabulary_of(model)));
    peer::Batch batch = llama_.make_batch(context_, 0, 1);
    batch.count = context_;
    const auto size = static_cast<size_t>(context_);
    for (size_t first = 0; first + size <= ids_.size(); first += size) {
      llama_.Clear(context);
      for (size_t i = 0; i < size; ++i) {
        batch.tokens[i] = ids_[first + i];
        batch.positions[i] = static_cast<int32_t>(i);
        batch.sequence_counts[i] = 1;
        batch.sequences[i][0] = 0;
        batch.logits[i] = 1;
      }
      if (llama_.decode(context, batch) != 0) Fail(file + ": llama.cpp does not evaluate it");
      const float* const logits = llama_.logits_of(context);
      for (size_t i = size / 2; i + 1 < size; ++i) use(std::span(logits + i * width, width));
    }
  }

 private:
  const peer::Llama& llama_;
  int32_t context_;
  std::vector<int32_t> ids_;
};

}  // namespace

int main(int count, char** words) {
  if (count < 6) Fail("usage: stock-kld LIBRARIES BASE CONTEXT IDS MODEL...");
  const peer::Llama llama(words[1]);
  std::ifstream file(words[4]);
  const Chunks chunks(llama, std::atoi(words[3]),
                      {std::istream_iterator<int32_t>(file), std::istream_iterator<int32_t>()});
  std::vector<KeptLogarithms> base;
  chunks.Run(words[2], [&](std::span<const float> logits) { base.push_back(Keep(logits)); });
  if (base.empty()) Fail(std::string(words[4]) + ": expected a whole chunk");
  for (int model = 5; model < count; ++model) {
    double sum = 0;
    size_t position = 0;
    chunks.Run(words[model],
               [&](std::span<const float> logits) { sum += Divergence(base[position++], logits); });
    std::cout << sum / static_cast<double>(base.size()) << std::endl;
  }
  std::_Exit(0);  // what llama.cpp allocated is released with the process
}
