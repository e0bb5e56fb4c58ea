// ParseJson and StreamJson: the entry point of every document.
#include "libshard/base/text/json.h"

#include <nlohmann/json.hpp>

#include "tests/fuzz/target.h"

namespace json_target {

using moepack::Status;

constexpr const char* kWhere = "damaged.json";
constexpr int kMaxDepth = 32;

std::vector<std::string> Seeds() {
  return {R"({"a": 1, "b": [1, -2, 3.5, "x\u00e9\n", true, null], "c": {"d": {}, "e": []}})",
          R"([18446744073709551615, -9223372036854775808, 1e-300, 0, "\ud83d\ude00"])", R"("text")",
          "0", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"};
}

// Counts events; refuses to continue after `limit` of them if there is a limit.
class Counter : public moepack::JsonEvents {
 public:
  explicit Counter(size_t limit) : limit_(limit) {}
  Status StartObject() override { return Enter(); }
  Status Key(std::string_view) override { return Count(); }
  Status EndObject() override { return Leave(); }
  Status StartArray() override { return Enter(); }
  Status EndArray() override { return Leave(); }
  Status String(std::string_view) override { return Count(); }
  Status Unsigned(uint64_t) override { return Count(); }
  Status Negative(int64_t number) override {
    if (number > 0) problem = "Negative with a number that is not";  // -0 arrives as 0
    return Count();
  }
  Status Float(double number) override {
    if (!(number - number == 0)) problem = "Float with a number that is not finite";
    return Count();
  }
  Status Bool(bool) override { return Count(); }
  Status Null() override { return Count(); }

  std::string problem;
  int depth = 0;
  size_t events = 0;

 private:
  Status Enter() {
    if (++depth > kMaxDepth) problem = "nested deeper than the cap";
    return Count();
  }
  Status Leave() {
    if (--depth < 0) problem = "left more than was entered";
    return Count();
  }
  Status Count() {
    if (++events == limit_) return moepack::Error{moepack::Code::kMismatch, "stop here"};
    return moepack::Ok();
  }
  size_t limit_;
};

std::string StreamProblem(std::string_view input, bool parses) {
  Counter all(0);
  const Status status = moepack::StreamJson(kWhere, input, all);
  if (status.has_value() != parses) return "ParseJson and StreamJson disagree";
  if (!all.problem.empty()) return all.problem;
  if (parses && all.depth != 0) return "an object or array was not left";
  if (all.events == 0) return "";
  Counter some(1 + all.events / 2);
  const Status stopped = moepack::StreamJson(kWhere, input, some);
  if (stopped || stopped.error().message != "stop here") {
    return "the error of the reader did not arrive";
  }
  return some.events == 1 + all.events / 2 ? "" : "events after the reader's error";
}

std::string Check(std::string_view input) {
  const auto document = moepack::ParseJson(kWhere, input);
  const std::string stream = StreamProblem(input, document.has_value());
  if (!stream.empty()) return stream;
  if (!document) return fuzz::ErrorProblem(document.error(), kWhere);
  const auto again = moepack::ParseJson(kWhere, moepack::WriteJson(*document));
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  return *again == *document ? "" : "another document after writing";
}

constexpr fuzz::Target kTarget{Check, Seeds, 20'000};

}  // namespace json_target

FUZZ_TARGET(FuzzJson, json_target::kTarget)
