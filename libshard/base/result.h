// Error and Result: how every library here reports failure. The libraries throw no exceptions of
// their own, do not log and do not exit.
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace moepack {

// What went wrong, in the classes that determine the exit status (tools/base/exit_code.h).
enum class Code {
  kInvalidArgument,  // the caller or user asked for something that makes no sense
  kNotFound,         // a file, tensor or group that should be there is not
  kCorrupt,          // a file contradicts its own format or another file
  kUnsupported,      // a valid input that this version does not handle
  kIo,               // the operating system refused: read, write, space, permission
  kMismatch,         // a verification or quality check failed
  kUnavailable,      // a registry or device cannot be reached
  kInterrupted,      // the user stopped the run
};

// `message` reads "<path>: <thing>: expected <x>, found <y>". `hint` is empty or one sentence that
// says what to try.
struct Error {
  Code code;
  std::string message;
  std::string hint = {};

  // Puts `context` and ": " in front of the message as the error is passed up.
  Error Within(const std::string& context) && {
    message = context + ": " + message;
    return std::move(*this);
  }
};

// An Error behind a pointer, as in LevelDB's Status: a Result of a small value stays small, and
// passing an error up moves one word. Owns the error; empty only once it was moved from.
class ErrorPointer {
 public:
  explicit ErrorPointer(Error&& error);
  ErrorPointer(const ErrorPointer& other);
  ErrorPointer(ErrorPointer&& other) noexcept : error_(std::exchange(other.error_, nullptr)) {}
  ErrorPointer& operator=(ErrorPointer other) noexcept {
    std::swap(error_, other.error_);
    return *this;
  }
  ~ErrorPointer() {
    if (error_ != nullptr) Delete();
  }

  // REQUIRES: not moved from.
  Error& operator*() const { return *error_; }

 private:
  void Delete();

  Error* error_;
};

// Nothing, for functions that only succeed or fail.
struct Unit {};

// A value, or the reason why there is none; the names are those of std::expected (C++23).
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}                    // NOLINT: implicit by design
  Result(Error error) : state_(ErrorPointer(std::move(error))) {}  // NOLINT: implicit by design
  Result(ErrorPointer error) : state_(std::move(error)) {}         // NOLINT: implicit by design

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // REQUIRES: has_value().
  T& value() & {
    assert(has_value());
    return std::get<0>(state_);
  }
  const T& value() const& {
    assert(has_value());
    return std::get<0>(state_);
  }
  T&& value() && {
    assert(has_value());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !has_value().
  const Error& error() const& {
    assert(!has_value());
    return *std::get<1>(state_);
  }
  Error&& error() && {
    assert(!has_value());
    return std::move(*std::get<1>(state_));
  }
  // The error for a caller who returns it as it is; this result is left without one.
  ErrorPointer&& failure() && {
    assert(!has_value());
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, ErrorPointer> state_;
};

using Status = Result<Unit>;
inline Status Ok() { return Unit{}; }

}  // namespace moepack

#define SHARD_CAT_INNER(a, b) a##b
#define SHARD_CAT(a, b) SHARD_CAT_INNER(a, b)

// SHARD_TRY(auto header, ReadHeader(file)): declares `header`, or returns the error to the caller.
#define SHARD_TRY(declaration, expression) \
  SHARD_TRY_NAMED(declaration, expression, SHARD_CAT(try_result_, __LINE__))
#define SHARD_TRY_NAMED(declaration, expression, result)       \
  auto result = (expression);                                  \
  if (!result.has_value()) return std::move(result).failure(); \
  declaration = std::move(result).value()

// SHARD_CHECK(Write(file)): returns the error to the caller, drops the value.
#define SHARD_CHECK(expression)                                      \
  do {                                                               \
    if (auto check_result = (expression); !check_result.has_value()) \
      return std::move(check_result).failure();                      \
  } while (0)
