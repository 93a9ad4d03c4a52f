package runconfig

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"hutch/profiles"
)

// A use is what hutch does with a field.
type use uint8

const (
	acts   use = iota
	same       // hutch does what it says, whatever it says, or it only tells of the server
	kept       // hutch does not act upon it, and says so
	guards     // likewise; and it was to keep something from somebody
	parts      // its members have rows of their own
	list       // its entries have rows in middleware
)

// A field is a row of the table of what a RunConfig says. A * stands for any name
// of a member, or the rest of one.
type field struct {
	path string
	use  use
	why  string // hutch does not act upon it
}

// fields are those of version 0.1.0, and hutch, which is ours.
var fields = append(fieldsOf("", reflect.TypeFor[says]())[1:], unheeded...)

// fieldsOf returns the field at a path, whose value has a type, and those below it.
func fieldsOf(path string, t reflect.Type) []field {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	all := []field{{path: path}}
	switch t.Kind() {
	case reflect.Map:
		all = append(all, fieldsOf(path+".*", t.Elem())...)
	case reflect.Struct:
		all[0].use = parts
		for member := range t.Fields() {
			name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
			all = append(all, fieldsOf(strings.TrimPrefix(path+"."+name, "."), member.Type)...)
		}
	}
	return all
}

// unheeded are the fields that the type says has not.
var unheeded = []field{
	{"remote_auth_config.use_pkce", same, ""},
	{"remote_auth_config.skip_browser", same, ""},
	{"isolate_network", same, ""},
	{"stateless", same, ""},
	{"registry_api_url", same, ""},
	{"registry_url", same, ""},
	{"base_name", same, ""},
	{"container_name", same, ""},

	{"host", kept, "no port of the host is opened: the server is called below servers"},
	{"port", kept, "no port of the host is opened: the server is called below servers"},
	{"proxy_mode", kept, "there is no proxy that speaks one of them only"},
	{"publish", kept, "no port of the host is opened: connect through net/tcp of the server's VM"},
	{"target_host", kept, "the server is reached on the loopback of its VM"},
	{"allowed_origins", kept, "no port of the host is opened for it"},
	{"env_file_dir", kept, "write the variables in env_vars"},
	{"debug", kept, "see debug in the ctl of the tree"},
	{"token_exchange_config", kept, "no token is exchanged for it"},
	{"upstream_swap_config", kept, "no token is exchanged for it"},
	{"aws_sts_config", kept, "no token is exchanged for it"},
	{"audit_config", kept, "every call is in mcp/calls"},
	{"audit_config_path", kept, "every call is in mcp/calls"},
	{"telemetry_config", kept, "hutchd's environment says where its traces go"},
	{"rate_limit_namespace", kept, "it is of Kubernetes"},
	{"k8s_pod_template_patch", kept, "it is of Kubernetes"},
	{"mcpserver_generation", kept, "it is of Kubernetes"},
	{"scaling_config", kept, "it is of Kubernetes"},
	{"allow_docker_gateway", kept, "there is no such gateway: a host that is not public has to be in the permission profile and in network.private of a profile"},
	{"trust_proxy_headers", kept, "there is no proxy in front of it"},
	{"strict_protocol_validation", kept, "revisions are negotiated"},
	{"session_ttl", kept, "sessions end with who holds them"},
	{"thv_ca_bundle", kept, "the host's certificates hold"},
	{"jwks_auth_token_file", kept, "callers are users of the tree"},
	{"endpoint_prefix", kept, "there is no proxy in front of it"},
	{"max_request_body_size", kept, "there is no proxy in front of it"},
	{"proxy_read_timeout", kept, "there is no proxy in front of it"},
	{"runtime_config", kept, "packages run with the programs of the image host"},
	{"remote_auth_config.headers", kept, "write them in header_forward"},
	{"remote_auth_config.env_vars", kept, "a remote server has no environment"},
	{"remote_auth_config.cached_*", kept, "log in anew"},

	{"oidc_config", guards, "callers are users of the tree"},
	{"authz_config", guards, "write Cedar policies in a profile, as policy(5) tells"},
	{"authz_config_path", guards, "write Cedar policies in a profile, as policy(5) tells"},
	{"rate_limit_config", guards, "write capabilities with a rate in a profile, as policy(5) tells"},
	{"ignore_config", guards, "no files are hidden in what is mounted"},
	{"validating_webhooks", guards, "nobody is asked: write rules in a profile, as policy(5) tells"},
	{"mutating_webhooks", guards, "nobody is asked: write rules in a profile, as policy(5) tells"},
	{"embedded_auth_server_config", guards, "callers are users of the tree"},
	{"middleware_configs", list, ""},
	{"additional_middleware_configs", list, ""},
}

// middleware are the types of entries of middleware_configs, which ToolHive writes
// beside the fields that they were made of. Of those that are not here nobody knows
// what they keep from whom.
var middleware = []field{
	{"body-limit", same, ""},
	{"header-forward", same, ""},
	{"mcp-parser", same, ""},
	{"origin", same, ""},
	{"recovery", same, ""},
	{"tool-call-filter", same, ""}, // looked at by itself
	{"tool-filter", same, ""},
	{"usagemetrics", same, ""},
	{"auth", kept, "callers are users of the tree"},
	{"audit", kept, "every call is in mcp/calls"},
	{"awssts", kept, "no token is exchanged for it"},
	{"obo", kept, "no token is exchanged for it"},
	{"strip-auth", kept, "no token of a caller is passed on"},
	{"telemetry", kept, "hutchd's environment says where its traces go"},
	{"tokenexchange", kept, "no token is exchanged for it"},
	{"upstreamswap", kept, "no token is exchanged for it"},
	{"authorization", guards, "write Cedar policies in a profile, as policy(5) tells"},
	{"mutating-webhook", guards, "nobody is asked: write rules in a profile, as policy(5) tells"},
	{"ratelimit", guards, "write capabilities with a rate in a profile, as policy(5) tells"},
	{"validating-webhook", guards, "nobody is asked: write rules in a profile, as policy(5) tells"},
}

// findField returns the row of the field at a path, nil if there is none.
func findField(path []string) *field {
	i := slices.IndexFunc(fields, func(f field) bool { return f.is(path) })
	if i < 0 {
		return nil
	}
	return &fields[i]
}

func (f *field) is(path []string) bool {
	names := strings.Split(f.path, ".")
	return slices.EqualFunc(names, path, func(a, b string) bool {
		beginning, open := strings.CutSuffix(a, "*")
		return a == b || open && strings.HasPrefix(b, beginning)
	})
}

// spelled returns how a field is spelled that differs from the path in case only,
// "" if there is none.
func spelled(path []string) string {
	last := len(path) - 1
	for _, f := range fields {
		names := strings.Split(f.path, ".")
		if len(names) != len(path) || names[last] == path[last] || !strings.EqualFold(names[last], path[last]) {
			continue
		}
		if f.is(append(path[:last:last], names[last])) {
			return names[last]
		}
	}
	return ""
}

// isKnown says whether hutch knows the field at a path, or that it is in.
func isKnown(path []string) bool {
	for n := range path {
		f := findField(path[:n+1])
		if f == nil || !slices.ContainsFunc(fields, func(g field) bool { return strings.HasPrefix(g.path, f.path+".") }) {
			return f != nil
		}
	}
	return true
}

// isList says whether the field at a path is a list of texts.
func isList(path []string) bool {
	takes := func(value string) bool {
		return json.Unmarshal(put([]byte("{}"), []byte(value), path), new(says)) == nil
	}
	return takes(`["x"]`) && !takes(`"x"`)
}

// meant asks whether the field was meant whose path, or its last name, is nearest to a
// path that leads to none.
func meant(path []string) string {
	typed := strings.ToLower(strings.Join(path, "."))
	for _, near := range []func(a, b string) bool{func(a, b string) bool { return a == b }, profiles.Near} {
		for _, f := range fields {
			if last := f.path[strings.LastIndexByte(f.path, '.')+1:]; last != "*" && (near(typed, f.path) || near(typed, last)) {
				return ": did you mean " + f.path + "?"
			}
		}
	}
	return "; server(5) has those that there are"
}
