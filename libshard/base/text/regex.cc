#include "libshard/base/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>
#include <string>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr size_t kMaxPattern = 4096;
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

PCRE2_SPTR Bytes(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

uint32_t FlagsOf(RegexSyntax syntax) {
  constexpr uint32_t kBoth = PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C;
  if (syntax == RegexSyntax::kPerl) return kBoth | PCRE2_UCP;
  return kBoth | PCRE2_ALLOW_EMPTY_CLASS | PCRE2_ALT_BSUX | PCRE2_DOLLAR_ENDONLY;
}

template <class T>
T* NotNull(T* made) {
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

}  // namespace

struct Regex::Code {
  std::string pattern;
  RegexOptions options;
  Owned<pcre2_code, pcre2_code_free> code;
};

struct Regex::Matcher::Room {
  Owned<pcre2_match_data, pcre2_match_data_free> data;
  Owned<pcre2_match_context, pcre2_match_context_free> context;
  Owned<pcre2_jit_stack, pcre2_jit_stack_free> stack;

  explicit Room(const Code& code)
      : data(NotNull(pcre2_match_data_create(1, nullptr))),
        context(NotNull(pcre2_match_context_create(nullptr))) {
    pcre2_set_match_limit(context.get(), code.options.max_steps);
    pcre2_set_depth_limit(context.get(), code.options.max_depth);
    pcre2_set_heap_limit(context.get(), code.options.max_heap_kib);
    if (!code.options.machine_code) return;
    stack.reset(NotNull(pcre2_jit_stack_create(kJitStackStart, kJitStackMost, nullptr)));
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

Result<Regex> Regex::Compile(std::string_view pattern, const RegexOptions& options) {
  if (pattern.empty() || pattern.size() > kMaxPattern) {
    return Error{
        moepack::Code::kInvalidArgument,
        Cat("regular expression: expected 1 to ", kMaxPattern, " bytes, found ", pattern.size())};
  }
  int error = 0;
  size_t offset = 0;
  auto compiled = std::make_shared<Regex::Code>();
  compiled->pattern = pattern;
  compiled->options = options;
  compiled->code.reset(pcre2_compile(Bytes(pattern), pattern.size(), FlagsOf(options.syntax),
                                     &error, &offset, nullptr));
  if (compiled->code == nullptr) {
    return Error{moepack::Code::kInvalidArgument,
                 Cat("regular expression ", Quoted(pattern),
                     ": expected a valid one, found at byte ", offset, ": ", MessageOf(error))};
  }
  // If PCRE2 has no compiler for the machine, pcre2_match interprets.
  if (options.machine_code) pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  return Regex(std::move(compiled));
}

std::string Regex::Literal(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

Result<bool> Regex::Search(std::string_view text) const {
  SHARD_TRY(const std::optional<Match> match, Matcher(*this).Run(text, 0, 0));
  return match.has_value();
}

Regex::Matcher::Matcher(const Regex& regex)
    : regex_(regex), room_(std::make_shared<Room>(*regex.code_)) {}

Result<std::optional<Regex::Match>> Regex::Matcher::Find(std::string_view text, size_t from) {
  return Run(text, from, PCRE2_NO_UTF_CHECK);
}

Result<std::optional<Regex::Match>> Regex::Matcher::Run(std::string_view text, size_t from,
                                                        uint32_t flags) {
  const Code& code = *regex_.code_;
  const int found = pcre2_match(code.code.get(), Bytes(text), text.size(), from, flags,
                                room_->data.get(), room_->context.get());
  if (found == PCRE2_ERROR_NOMATCH) return std::optional<Match>();
  if (found < 0) {
    return Error{moepack::Code::kInvalidArgument,
                 Cat("regular expression ", Quoted(code.pattern), ": expected at most ",
                     code.options.max_steps, " steps and ", code.options.max_heap_kib / 1024,
                     " MiB for a text of ", text.size(), " bytes, found: ", MessageOf(found))};
  }
  const size_t* range = pcre2_get_ovector_pointer(room_->data.get());
  return std::optional(Match{range[0], range[1]});
}

}  // namespace moepack
