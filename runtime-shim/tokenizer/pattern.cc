#include "runtime-shim/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "libshard/base/text.h"

namespace runtime {
namespace {

using shard::Cat;
using shard::Error;

// The limits of one match. The expressions here need a few steps per byte of the word that they
// match.
constexpr uint32_t kMaxSteps = 100'000'000;
constexpr uint32_t kMaxHeapKib = 256u << 10;
constexpr size_t kJitStackStart = 32u << 10, kJitStackMost = 64u << 20;

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* thing) const {
    Free(thing);
  }
};
template <class T, auto Free>
using Owned = std::unique_ptr<T, Deleter<Free>>;

std::string MessageOf(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  if (pcre2_get_error_message(code, text.data(), text.size()) < 0) return Cat("error ", code);
  return reinterpret_cast<const char*>(text.data());
}

// What one call of Split needs, so that a Pattern can be used by several threads.
struct Matching {
  Owned<pcre2_match_data, pcre2_match_data_free> data;
  Owned<pcre2_match_context, pcre2_match_context_free> context;
  Owned<pcre2_jit_stack, pcre2_jit_stack_free> stack;

  explicit Matching(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kJitStackStart, kJitStackMost, nullptr)) {
    if (context == nullptr) return;
    pcre2_set_match_limit(context.get(), kMaxSteps);
    pcre2_set_heap_limit(context.get(), kMaxHeapKib);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

}  // namespace

struct Pattern::Code {
  Owned<pcre2_code, pcre2_code_free> code;

  // Matches of one piece, appended with what is between them.
  int Cut(std::string_view piece, const Matching& matching,
          std::vector<std::string_view>& out) const {
    const auto* bytes = reinterpret_cast<PCRE2_SPTR>(piece.data());
    size_t done = 0;
    while (done < piece.size()) {
      const int found = pcre2_match(code.get(), bytes, piece.size(), done, PCRE2_NO_UTF_CHECK,
                                    matching.data.get(), matching.context.get());
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) return found;
      const size_t* range = pcre2_get_ovector_pointer(matching.data.get());
      const size_t start = range[0], end = range[1];
      // An expression that matches nothing at all finds no more words.
      if (end <= start) break;
      if (start > done) out.push_back(piece.substr(done, start - done));
      out.push_back(piece.substr(start, end - start));
      done = end;
    }
    if (done < piece.size()) out.push_back(piece.substr(done));
    return 0;
  }
};

Pattern::Pattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

shard::Result<Pattern> Pattern::Compile(std::string_view expression) {
  int code = 0;
  size_t offset = 0;
  auto compiled = std::make_unique<Code>();
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()),
                                     expression.size(), PCRE2_UTF | PCRE2_UCP, &code, &offset,
                                     nullptr));
  if (compiled->code == nullptr) {
    return Error{shard::Code::kInvalidArgument, Cat("expression ", shard::Quoted(expression),
                                                    ": expected a regular expression, "
                                                    "found at byte ",
                                                    offset, ": ", MessageOf(code))};
  }
  // Where there is no JIT compiler for the machine, pcre2_match interprets.
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  return Pattern(std::move(compiled));
}

shard::Result<std::vector<std::string_view>> Pattern::Split(
    const std::vector<std::string_view>& pieces) const {
  const Matching matching(code_->code.get());
  if (matching.data == nullptr || matching.context == nullptr) {
    return Error{shard::Code::kIo, "expected memory for matching, found none"};
  }
  std::vector<std::string_view> out;
  for (const std::string_view piece : pieces) {
    const int code = code_->Cut(piece, matching, out);
    if (code == 0) continue;
    return Error{shard::Code::kUnsupported,
                 Cat("text: expected words that can be found in ", kMaxSteps, " steps and ",
                     kMaxHeapKib / 1024, " MiB, found a piece of ", piece.size(),
                     " bytes: ", MessageOf(code)),
                 "cut the text into shorter ones"};
  }
  return out;
}

}  // namespace runtime
