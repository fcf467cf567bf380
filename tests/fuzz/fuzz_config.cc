#include <nlohmann/json.hpp>

#include "base/error.h"
#include "convert/describe.h"

// A config.json: described, or refused with an Error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cortiq;
  try {
    convert::Checkpoint checkpoint;
    checkpoint.path = "fuzz";
    checkpoint.config_path = "config.json";
    checkpoint.config =
        parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "config.json", {.allow_bom = true});
    const convert::Described model = convert::describe(checkpoint);
    cmf::parse_arch(cmf::write_arch(model.arch), "arch");
  } catch (const Error&) {
  }
  return 0;
}
