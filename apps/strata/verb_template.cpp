// strata template: what a chat template makes of messages.
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/terminal.h"
#include "gguf/file.h"
#include "strata/output.h"
#include "strata/verb.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace strata::app {
namespace {

constexpr uint64_t k_most_bytes = uint64_t{64} << 20;

Json read_variables(const Options& options) {
  const std::string path = options.input.value_or("-");
  if (!options.input && terminal::is_terminal(terminal::Stream::input)) {
    fail(ErrorCode::usage, "no variables given; use --input FILE.json or standard input");
  }
  const std::string name = path == "-" ? "standard input" : printable(path, 400);
  const std::string text = read_file(path, k_most_bytes);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    fail(ErrorCode::bad_request,
         "{} was empty; a JSON object with the template's variables is expected there, as in "
         "{{\"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}{}",
         name, options.input ? "" : ", or in a file with --input FILE.json");
  }
  Json variables;
  try {
    variables = Json::parse(text);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_request) throw;
    fail(ErrorCode::bad_request, "{}: {}", name, error.what());
  }
  if (!variables.is_object()) {
    fail(ErrorCode::bad_request,
         "{}: a JSON {} is no use here; give an object with the template's variables, as in "
         "{{\"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}",
         name, variables.type_name());
  }
  return variables;
}

// bos_token and eos_token come from the model when the variables do not have them.
void add_model_tokens(const gguf::Metadata& metadata, Json& variables) {
  const auto* texts = metadata.find_strings("tokenizer.ggml.tokens");
  if (texts == nullptr) return;
  for (const char* name : {"bos", "eos"}) {
    const std::string variable = std::string(name) + "_token";
    const auto id = metadata.find_uint("tokenizer.ggml." + std::string(name) + "_token_id");
    if (!id || *id >= texts->size() || variables.find(variable) != nullptr) continue;
    variables.set(variable, (*texts)[*id]);
  }
}

}  // namespace

int template_verb(const Options& options) {
  if (options.model.empty() && !options.chat_template_file) {
    fail(ErrorCode::usage, "no template given; use --template FILE.jinja or -m FILE");
  }
  std::string source, name;
  gguf::Metadata metadata;
  if (!options.model.empty()) {
    gguf::ParseOptions parse;
    parse.allow_missing_data = true;
    metadata = gguf::File::open(options.model, parse).metadata();
  }
  if (options.chat_template_file) {
    name = printable(*options.chat_template_file, 400);
    source = read_file(*options.chat_template_file, k_most_bytes);
  } else {
    name = "chat template";
    const auto own = metadata.find_string("tokenizer.chat_template");
    if (!own) {
      fail(ErrorCode::bad_file, "'{}' has no chat template; give one with --template FILE.jinja",
           printable(options.model, 400));
    }
    source = *own;
  }
  const auto chat_template = text::ChatTemplate::parse(source, name);
  Json variables = read_variables(options);
  add_model_tokens(metadata, variables);
  print(chat_template.render(variables));
  return 0;
}

}  // namespace strata::app
