// ParsePythonJson: JSON with bare Infinity in it.
#include "libshard/base/text/python_json.h"

#include <nlohmann/json.hpp>

#include "tests/fuzz/target.h"

namespace python_json_target {

constexpr const char* kWhere = "damaged/config.json";

std::vector<std::string> Seeds() {
  return {R"({"time_step_limit": [0.0, Infinity], "low": -Infinity, "n": 3})",
          R"({"text": "Infinity is \"NaN\"", "Infinity": "NaN", "a\\": -Infinity})",
          R"([Infinity, -Infinity, "Infinity", {"x": Infinity}])", R"({"num_experts": 16})"};
}

std::string Check(std::string_view input) {
  const auto document = moepack::ParsePythonJson(kWhere, input);
  if (!document) return fuzz::ErrorProblem(document.error(), kWhere);
  const std::string text = moepack::WritePythonJson(*document);
  const auto again = moepack::ParsePythonJson(kWhere, text);
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  return *again == *document ? "" : moepack::Cat("another document after writing ", text);
}

constexpr fuzz::Target kTarget{Check, Seeds, 20'000};

}  // namespace python_json_target

FUZZ_TARGET(FuzzPythonJson, python_json_target::kTarget)
