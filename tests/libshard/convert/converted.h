// A converted sample, or the reason why it does not convert.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "tests/libshard/convert/sample.h"

namespace moepack {

// The result of a sample that converts; an empty model, and a failed test, if it does not.
inline GgufModel Converted(const ConvertSample& sample, const ConvertOptions& options = {}) {
  auto model = sample.Convert(options);
  EXPECT_TRUE(model) << model.error().message;
  return model ? *std::move(model) : GgufModel();
}

inline GgufMetadata ConvertedKeys(const ConvertSample& sample) {
  return Converted(sample).metadata;
}

// Why a sample does not convert.
inline Error ConversionError(const ConvertSample& sample) {
  const auto model = sample.Convert();
  EXPECT_FALSE(model);
  return model ? Error{} : model.error();
}

}  // namespace moepack
