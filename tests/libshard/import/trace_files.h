// Writes small traces and reads them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "fixtures/temp_dir.h"
#include "libshard/import/route_trace.h"

namespace moepack {

class TraceFiles : public ::testing::Test {
 protected:
  Result<RouteTrace> Read(std::string_view text, const TraceOptions& options = {}) {
    const auto path = dir_ / "t";
    EXPECT_TRUE(fixtures::WriteFile(path, text));
    return ReadRouteTrace(path.string(), options);
  }
  RouteTrace MustRead(std::string_view text, const TraceOptions& options = {}) {
    auto trace = Read(text, options);
    EXPECT_TRUE(trace) << (trace ? "" : trace.error().message);
    return trace ? *std::move(trace) : RouteTrace{};
  }
  // The message without the directory of the file; "" if the trace is read.
  std::string Refusal(std::string_view text, Code code, const TraceOptions& options = {}) {
    const auto trace = Read(text, options);
    if (trace) return "";
    EXPECT_EQ(trace.error().code, code) << trace.error().message;
    const std::string place = (dir_ / "").string();
    std::string message = trace.error().message;
    const size_t at = message.find(place);
    return at == std::string::npos ? message : message.erase(at, place.size());
  }
  fixtures::TempDir dir_;
};

inline std::vector<uint32_t> ChosenIn(const LayerTrace& layer, size_t index) {
  const auto ids = layer.Chosen(index);
  return {ids.begin(), ids.end()};
}

}  // namespace moepack
