// OpenAI's Responses: items in and out, the events of a stream in order, and what is refused.
#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "server/api.h"
#include "support.h"

namespace strata::server {
namespace {

struct Event {
  std::string name;
  Json data;
  const std::string& text(const char* field) const { return data.find(field)->as_string(); }
  int64_t number(const char* field) const { return data.find(field)->as_int(); }
};

class ResponsesTest : public testing::Test {
 protected:
  void SetUp() override { start(std::nullopt); }
  void start(const std::optional<std::string>& chat_template) {
    api_.reset();
    scheduler_.reset();
    EngineOptions options;
    options.chat_template = chat_template;
    options.model = std::string(STRATA_SOURCE_DIR) + "/models/demo-q8_0.gguf";
    options.n_context = 1024;
    options.n_ubatch = 64;
    engine_ = Engine::open(options);
    scheduler_ = std::make_unique<Scheduler>(*engine_, SchedulerOptions{});
    ApiOptions api;
    api.model_name = "demo";
    api.metrics = true;
    api_ = std::make_unique<Api>(*engine_, *scheduler_, api);
  }
  HttpResponse send(const std::string& body, const std::string& path = "/v1/responses") const {
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    return api_->handle(request);
  }
  Json post(const std::string& body, int status = 200,
            const std::string& path = "/v1/responses") const {
    const HttpResponse response = send(body, path);
    EXPECT_EQ(response.status, status) << body << ": " << response.body;
    return Json::parse(response.body);
  }
  std::string refusal(const std::string& body) const {
    return post(body, 400).find("error")->find("message")->as_string();
  }
  // A stream's events; its form is checked on the way.
  std::vector<Event> stream(const std::string& body) const {
    const HttpResponse response = send(body);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.type, "text/event-stream");
    std::string all;
    if (response.stream) {
      response.stream(
          [&](const std::string& data) {
            all += data;
            return true;
          },
          [] { return true; });
    }
    std::vector<Event> out;
    for (size_t at = 0; at < all.size();) {
      const size_t end = all.find("\n\n", at);
      const std::string one = all.substr(at, end - at);
      at = end + 2;
      if (one.rfind(':', 0) == 0) continue;
      const size_t line = one.find('\n');
      EXPECT_EQ(one.rfind("event: ", 0), 0u) << one;
      EXPECT_EQ(one.compare(line + 1, 6, "data: "), 0) << one;
      Event event{one.substr(7, line - 7), Json::parse(one.substr(line + 7))};
      EXPECT_EQ(event.text("type"), event.name);
      EXPECT_EQ(event.number("sequence_number"), static_cast<int64_t>(out.size()));
      out.push_back(std::move(event));
    }
    return out;
  }
  static std::string text_of(const Json& response) {
    std::string out;
    for (const Json& item : response.find("output")->as_array()) {
      if (item.find("type")->as_string() != "message") continue;
      for (const Json& part : item.find("content")->as_array()) {
        out += part.find("text")->as_string();
      }
    }
    return out;
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Api> api_;
};

// The same words to the model as a chat, so the same answer.
TEST_F(ResponsesTest, says_what_a_chat_says) {
  const Json chat = post(R"({"messages":[{"role":"system","content":"Be kind."},
               {"role":"user","content":"What is 2+2?"}],"temperature":0,"max_tokens":30})",
                         200, "/v1/chat/completions");
  const std::string want =
      chat.find("choices")->as_array()[0].find("message")->find("content")->as_string();
  for (
      const char* body :
      {R"({"instructions":"Be kind.","input":"What is 2+2?","temperature":0,"max_output_tokens":30})",
       R"({"input":[{"role":"system","content":"Be kind."},
            {"type":"message","role":"user","content":[{"type":"input_text","text":"What is "},
             {"type":"input_text","text":"2+2?"}]}],"temperature":0,"max_output_tokens":30})"}) {
    const Json answer = post(body);
    EXPECT_EQ(text_of(answer), want);
    EXPECT_EQ(answer.find("object")->as_string(), "response");
    EXPECT_EQ(answer.find("id")->as_string().rfind("resp_", 0), 0u);
    EXPECT_EQ(answer.find("model")->as_string(), "demo");
    EXPECT_TRUE(answer.find("error")->is_null());
    EXPECT_FALSE(answer.find("store")->as_bool());
    const Json& usage = *answer.find("usage");
    EXPECT_EQ(usage.find("input_tokens")->as_int(),
              chat.find("usage")->find("prompt_tokens")->as_int());
    EXPECT_EQ(usage.find("output_tokens")->as_int(),
              chat.find("usage")->find("completion_tokens")->as_int());
    EXPECT_EQ(usage.find("total_tokens")->as_int(),
              usage.find("input_tokens")->as_int() + usage.find("output_tokens")->as_int());
    EXPECT_EQ(usage.find("output_tokens_details")->find("reasoning_tokens")->as_int(), 0);
    ASSERT_NE(usage.find("input_tokens_details")->find("cached_tokens"), nullptr);
  }
}

TEST_F(ResponsesTest, a_stream_tells_the_final_object_step_by_step) {
  const std::string rest = R"("input":"What is 2+2?","temperature":0,"max_output_tokens":200})";
  const Json whole = post("{" + rest);
  const auto events = stream(R"({"stream":true,)" + rest);
  std::vector<std::string> names;
  for (const Event& event : events) {
    if (names.empty() || names.back() != event.name) names.push_back(event.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "response.created", "response.in_progress", "response.output_item.added",
                       "response.content_part.added", "response.output_text.delta",
                       "response.output_text.done", "response.content_part.done",
                       "response.output_item.done", "response.completed"}));
  const Json& last = *events.back().data.find("response");
  EXPECT_EQ(last.find("status")->as_string(), "completed");
  EXPECT_EQ(text_of(last), text_of(whole));
  ASSERT_EQ(last.find("output")->as_array().size(), 1u);
  const Json& item = last.find("output")->as_array()[0];
  const std::string id = item.find("id")->as_string();
  EXPECT_EQ(id.rfind("msg_", 0), 0u);
  std::string said;
  for (const Event& event : events) {
    const Json* response = event.data.find("response");
    if (response != nullptr) {
      EXPECT_EQ(*response->find("id"), *last.find("id"));
    }
    if (const Json* of = event.data.find("item_id")) {
      EXPECT_EQ(of->as_string(), id);
    }
    if (const Json* of = event.data.find("item")) {
      EXPECT_EQ(of->find("id")->as_string(), id);
    }
    if (const Json* of = event.data.find("output_index")) {
      EXPECT_EQ(of->as_int(), 0);
    }
    if (event.name == "response.output_text.delta") said += event.text("delta");
    if (event.name == "response.output_text.done") {
      EXPECT_EQ(event.text("text"), said);
    }
    if (event.name == "response.output_item.done") {
      EXPECT_EQ(*event.data.find("item"), item);
    }
    if (event.name == "response.content_part.done") {
      EXPECT_EQ(*event.data.find("part"), item.find("content")->as_array()[0]);
    }
    if (event.name == "response.created" || event.name == "response.in_progress") {
      EXPECT_EQ(response->find("status")->as_string(), "in_progress");
      EXPECT_TRUE(response->find("usage")->is_null());
      EXPECT_TRUE(response->find("output")->as_array().empty());
    }
  }
  EXPECT_EQ(said, text_of(whole));
}

TEST_F(ResponsesTest, an_answer_cut_short_is_incomplete) {
  const std::string rest = R"("input":"Tell me a story","temperature":0,"max_output_tokens":3})";
  const Json whole = post("{" + rest);
  EXPECT_EQ(whole.find("status")->as_string(), "incomplete");
  EXPECT_EQ(whole.find("incomplete_details")->find("reason")->as_string(), "max_output_tokens");
  EXPECT_EQ(whole.find("max_output_tokens")->as_int(), 3);
  EXPECT_EQ(whole.find("usage")->find("output_tokens")->as_int(), 3);
  EXPECT_EQ(whole.find("output")->as_array()[0].find("status")->as_string(), "incomplete");
  const auto events = stream(R"({"stream":true,)" + rest);
  EXPECT_EQ(events.back().name, "response.incomplete");
  EXPECT_EQ(text_of(*events.back().data.find("response")), text_of(whole));
}

TEST_F(ResponsesTest, answers_of_a_given_form) {
  const Json answer = post(
      R"({"input":"Who?","max_output_tokens":60,"temperature":0,"text":{"format":{"type":"json_schema",
          "name":"who","strict":true,"schema":{"type":"object","properties":{"age":{"type":"integer",
          "minimum":1,"maximum":9}},"required":["age"],"additionalProperties":false}}}})");
  const Json said = Json::parse(text_of(answer));
  EXPECT_GE(said.find("age")->as_int(), 1);
  EXPECT_LE(said.find("age")->as_int(), 9);
  EXPECT_EQ(answer.find("text")->find("format")->find("name")->as_string(), "who");
}

TEST_F(ResponsesTest, logprobs_where_they_are_asked_for) {
  const Json answer = post(
      R"({"input":"Hello","max_output_tokens":5,"top_logprobs":2,
          "include":["message.output_text.logprobs"]})");
  const Json& part = answer.find("output")->as_array()[0].find("content")->as_array()[0];
  ASSERT_EQ(part.find("logprobs")->as_array().size(), 5u);
  for (const Json& one : part.find("logprobs")->as_array()) {
    EXPECT_LE(one.find("logprob")->as_real(), 0);
    EXPECT_EQ(one.find("top_logprobs")->as_array().size(), 2u);
  }
}

// Unknown kinds of tools and items are skipped, what a client sends for itself comes back.
TEST_F(ResponsesTest, takes_what_it_need_not_understand) {
  const Json answer = post(
      R"({"model":"gpt-x","input":[{"type":"web_search_call","id":"ws_1","status":"completed"},
          {"type":"message","role":"user","content":"Hi"}],"tools":[{"type":"web_search"},
          {"type":"file_search","vector_store_ids":["a"]}],"store":true,"metadata":{"a":"b"},
          "user":"me","include":["reasoning.encrypted_content"],"service_tier":"auto",
          "truncation":"auto","parallel_tool_calls":false,"previous_response_id":null,
          "background":false,"max_output_tokens":4})");
  EXPECT_EQ(answer.find("metadata")->find("a")->as_string(), "b");
  EXPECT_EQ(answer.find("user")->as_string(), "me");
  EXPECT_FALSE(answer.find("parallel_tool_calls")->as_bool());
  EXPECT_EQ(answer.find("tools")->as_array().size(), 2u);
}

TEST_F(ResponsesTest, a_conversation_goes_on) {
  const Json first = post(R"({"input":"Hi","temperature":0,"max_output_tokens":20})");
  // What came back is sent as it is, with the next question behind it.
  Json input = Json::array();
  input.push(Json::object({{"role", "user"}, {"content", "Hi"}}));
  for (const Json& item : first.find("output")->as_array()) input.push(item);
  input.push(Json::object({{"role", "user"}, {"content", "And then?"}}));
  const Json next =
      post(Json::object({{"input", input}, {"temperature", 0}, {"max_output_tokens", 20}}).dump());
  Json messages = Json::array();
  messages.push(Json::object({{"role", "user"}, {"content", "Hi"}}));
  messages.push(Json::object({{"role", "assistant"}, {"content", text_of(first)}}));
  messages.push(Json::object({{"role", "user"}, {"content", "And then?"}}));
  const Json chat =
      post(Json::object({{"messages", messages}, {"temperature", 0}, {"max_tokens", 20}}).dump(),
           200, "/v1/chat/completions");
  EXPECT_EQ(text_of(next),
            chat.find("choices")->as_array()[0].find("message")->find("content")->as_string());
  EXPECT_EQ(next.find("usage")->find("input_tokens")->as_int(),
            chat.find("usage")->find("prompt_tokens")->as_int());
}

const char* const k_tools =
    R"("tools":[{"type":"web_search"},{"type":"function","name":"get_weather","description":"It.",
        "parameters":{"type":"object","properties":{"city":{"type":"string","enum":["Oslo","Rome"]},
        "days":{"type":"integer","minimum":1,"maximum":3}},"required":["city","days"],
        "additionalProperties":false},"strict":true}])";

TEST_F(ResponsesTest, tools_are_called_and_answered) {
  for (const char* choice : {R"("required")", R"({"type":"function","name":"get_weather"})",
                             R"({"type":"allowed_tools","mode":"required","tools":
                                 [{"type":"function","name":"get_weather"},{"type":"mcp"}]})"}) {
    const std::string rest = std::string(k_tools) + R"(,"tool_choice":)" + choice +
                             R"(,"parallel_tool_calls":false,"temperature":0,
                                 "max_output_tokens":300,"input":"How is Oslo?"})";
    const Json answer = post("{" + rest);
    EXPECT_EQ(answer.find("status")->as_string(), "completed");
    ASSERT_EQ(answer.find("output")->as_array().size(), 1u);
    const Json& call = answer.find("output")->as_array()[0];
    EXPECT_EQ(call.find("type")->as_string(), "function_call");
    EXPECT_EQ(call.find("name")->as_string(), "get_weather");
    EXPECT_EQ(call.find("status")->as_string(), "completed");
    EXPECT_EQ(call.find("id")->as_string().rfind("fc_", 0), 0u);
    const Json arguments = Json::parse(call.find("arguments")->as_string());
    EXPECT_TRUE(arguments.find("city")->as_string() == "Oslo" ||
                arguments.find("city")->as_string() == "Rome");
    EXPECT_LE(arguments.find("days")->as_int(), 3);

    // Step by step the same call, by the same ids throughout.
    const auto events = stream(R"({"stream":true,)" + rest);
    const Json& last = *events.back().data.find("response");
    EXPECT_EQ(events.back().name, "response.completed");
    ASSERT_EQ(last.find("output")->as_array().size(), 1u);
    const Json& item = last.find("output")->as_array()[0];
    std::string told;
    std::vector<std::string> names;
    for (const Event& event : events) {
      if (names.empty() || names.back() != event.name) names.push_back(event.name);
      if (const Json* id = event.data.find("item_id")) {
        EXPECT_EQ(*id, *item.find("id"));
      }
      if (const Json* of = event.data.find("item")) {
        EXPECT_EQ(*of->find("id"), *item.find("id"));
        EXPECT_EQ(*of->find("call_id"), *item.find("call_id"));
        EXPECT_EQ(of->find("name")->as_string(), "get_weather");
      }
      if (event.name == "response.output_item.added") {
        EXPECT_EQ(event.data.find("item")->find("arguments")->as_string(), "");
      }
      if (event.name == "response.function_call_arguments.delta") told += event.text("delta");
      if (event.name == "response.function_call_arguments.done") {
        EXPECT_EQ(event.text("arguments"), told);
      }
    }
    EXPECT_EQ(names,
              (std::vector<std::string>{
                  "response.created", "response.in_progress", "response.output_item.added",
                  "response.function_call_arguments.delta", "response.function_call_arguments.done",
                  "response.output_item.done", "response.completed"}));
    EXPECT_EQ(item.find("arguments")->as_string(), told);
    EXPECT_EQ(told, call.find("arguments")->as_string());

    // The call and its result are a part of what is asked next, paired by call_id.
    Json input = Json::array();
    input.push(Json::object({{"role", "user"}, {"content", "How is Oslo?"}}));
    input.push(item);
    input.push(Json::object({{"type", "function_call_output"},
                             {"call_id", *item.find("call_id")},
                             {"output", "snow"}}));
    const Json next =
        post(Json::object({{"input", input}, {"max_output_tokens", 4}, {"temperature", 0}}).dump());
    Json messages = Json::array();
    messages.push(Json::object({{"role", "user"}, {"content", "How is Oslo?"}}));
    messages.push(Json::object(
        {{"role", "assistant"},
         {"content", ""},
         {"tool_calls",
          Json(Json::Array{Json::object(
              {{"id", *item.find("call_id")},
               {"type", "function"},
               {"function", Json::object({{"name", "get_weather"},
                                          {"arguments", *item.find("arguments")}})}})})}}));
    messages.push(Json::object(
        {{"role", "tool"}, {"tool_call_id", *item.find("call_id")}, {"content", "snow"}}));
    const Json chat =
        post(Json::object({{"messages", messages}, {"max_tokens", 4}, {"temperature", 0}}).dump(),
             200, "/v1/chat/completions");
    EXPECT_EQ(next.find("usage")->find("input_tokens")->as_int(),
              chat.find("usage")->find("prompt_tokens")->as_int());
  }
}

TEST_F(ResponsesTest, what_is_thought_is_an_item_of_its_own) {
  // The prompt ends where the model is to think, which it then does not stop doing.
  start(
      "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + "
      "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}"
      "{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}{# </think> #}");
  const std::string rest = R"("input":"Tell me a story","temperature":0,"max_output_tokens":12})";
  const Json answer = post("{" + rest);
  ASSERT_EQ(answer.find("output")->as_array().size(), 1u);
  const Json& item = answer.find("output")->as_array()[0];
  EXPECT_EQ(item.find("type")->as_string(), "reasoning");
  EXPECT_TRUE(item.find("summary")->as_array().empty());
  const Json& part = item.find("content")->as_array()[0];
  EXPECT_EQ(part.find("type")->as_string(), "reasoning_text");
  EXPECT_FALSE(part.find("text")->as_string().empty());
  EXPECT_GT(answer.find("usage")->find("output_tokens_details")->find("reasoning_tokens")->as_int(),
            8);
  const auto events = stream(R"({"stream":true,)" + rest);
  std::string thought;
  std::vector<std::string> names;
  for (const Event& event : events) {
    if (names.empty() || names.back() != event.name) names.push_back(event.name);
    if (event.name == "response.reasoning_text.delta") thought += event.text("delta");
  }
  EXPECT_EQ(thought, part.find("text")->as_string());
  EXPECT_EQ(names, (std::vector<std::string>{
                       "response.created", "response.in_progress", "response.output_item.added",
                       "response.content_part.added", "response.reasoning_text.delta",
                       "response.reasoning_text.done", "response.content_part.done",
                       "response.output_item.done", "response.incomplete"}));
}

TEST_F(ResponsesTest, who_leaves_is_not_computed_for) {
  post(R"({"input":"A story","max_output_tokens":3})");
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/responses";
  request.body = R"({"input":"Tell me a story","max_output_tokens":900,"ignore_eos":true})";
  request.connected = [] { return false; };
  EXPECT_EQ(api_->handle(request).status, 499);
  request.body = R"({"stream":true,"input":"A story","max_output_tokens":900,"ignore_eos":true})";
  const HttpResponse response = api_->handle(request);
  int left = 5;
  response.stream([&](const std::string&) { return --left > 0; }, [&] { return left > 0; });
  EXPECT_TRUE(scheduler_->drain(20));
  // Nor do its times say how long an answer takes.
  const auto answered = [&] {
    HttpRequest get;
    get.method = "GET";
    get.path = "/metrics";
    const std::string text = api_->handle(get).body;
    std::vector<std::string> counts;
    for (const char* name : {"e2e_request_latency_seconds", "request_queue_time_seconds"}) {
      size_t at = text.find(std::string(name) + "_count");
      at = at == std::string::npos ? at : text.find(' ', at);
      EXPECT_NE(at, std::string::npos) << name;
      if (at == std::string::npos) continue;
      counts.push_back(text.substr(at + 1, text.find('\n', at) - at - 1));
    }
    return counts;
  };
  EXPECT_EQ(answered(), (std::vector<std::string>{"1", "1"}));
}

TEST_F(ResponsesTest, mistakes_name_what_is_wrong) {
  const auto says = [](const std::string& message, const char* what) {
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  says(refusal("{}"), "'input' is missing");
  says(refusal(R"({"input":5})"), "'input' must be");
  says(refusal(R"({"input":[]})"), "'input' must be");
  says(refusal(R"({"input":["a"]})"), "'input[0]' must be a JSON object");
  says(refusal(R"({"input":[{"content":"a"}]})"), "'input[0].role' is missing");
  says(refusal(R"({"input":[{"role":"user","content":[{"type":"input_image"}]}]})"), "input_image");
  says(refusal(R"({"input":[{"type":"item_reference","id":"msg_1"}]})"), "nothing is stored");
  says(refusal(R"({"input":[{"type":"function_call","name":"f"}]})"), "call_id");
  says(refusal(R"({"input":"a","previous_response_id":"resp_1"})"), "nothing is stored");
  says(refusal(R"({"input":"a","conversation":"conv_1"})"), "nothing is stored");
  says(refusal(R"({"input":"a","prompt":{"id":"x"}})"), "nothing is stored");
  says(refusal(R"({"input":"a","background":true})"), "'background'");
  says(refusal(R"({"input":"a","instructions":5})"), "'instructions' must be");
  says(refusal(R"({"input":"a","max_output_tokens":0})"), "'max_output_tokens' is 0");
  says(refusal(R"({"input":"a","temperature":"hot"})"), "'temperature' must be");
  says(refusal(R"({"input":"a","top_p":2})"), "'top_p' is 2");
  says(refusal(R"({"input":"a","top_logprobs":21})"), "'top_logprobs' is 21");
  says(refusal(R"({"input":"a","text":{"format":{"type":"xml"}}})"), "'text.format.type'");
  says(refusal(R"({"input":"a","text":{"format":{"type":"json_schema"}}})"), "schema' is missing");
  says(refusal(R"({"input":"a","tools":[{"name":"f"}]})"), "'tools[0].type' is missing");
  says(refusal(R"({"input":"a","tools":[{"type":"function"}]})"), "name");
  says(refusal(R"({"input":"a","tool_choice":"required","tools":[{"type":"web_search"}]})"),
       "'tool_choice'");
  says(refusal(R"({"input":"a","stream":"yes"})"), "'stream' must be");
}

// Whatever a field holds, the answer is a success or a mistake of the client's.
TEST_F(ResponsesTest, no_field_is_the_servers_fault) {
  const char* const fields[] = {"input",         "instructions",
                                "tools",         "tool_choice",
                                "text",          "reasoning",
                                "include",       "metadata",
                                "temperature",   "top_p",
                                "stream",        "store",
                                "truncation",    "max_output_tokens",
                                "user",          "background",
                                "top_logprobs",  "parallel_tool_calls",
                                "stream_options"};
  const char* const values[] = {
      "null", "true", "-1",  "1e300", "9223372036854775807", "\"x\"",
      "[]",   "{}",   "[1]", "[[]]",  R"({"type":"x"})",     R"([{"type":"message"}])"};
  for (const char* field : fields) {
    for (const char* value : values) {
      std::string body = std::string("{\"") + field + "\":" + value;
      if (std::string(field) != "max_output_tokens") body += R"(,"max_output_tokens":1)";
      if (std::string(field) != "input") body += R"(,"input":"a")";
      const HttpResponse response = send(body + "}");
      EXPECT_TRUE(response.status == 200 || response.status == 400)
          << body << ": " << response.status << " " << response.body;
      if (response.stream) {
        response.stream([](const std::string&) { return true; }, [] { return true; });
      }
    }
  }
}

}  // namespace
}  // namespace strata::server
