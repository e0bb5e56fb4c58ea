#include "libshard/base/result.h"

namespace moepack {

ErrorPointer::ErrorPointer(Error&& error) : error_(new Error(std::move(error))) {}

ErrorPointer::ErrorPointer(const ErrorPointer& other)
    : error_(other.error_ != nullptr ? new Error(*other.error_) : nullptr) {}

void ErrorPointer::Delete() { delete error_; }

}  // namespace moepack
