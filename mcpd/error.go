package mcpd

import "hutch/aggd/jsonrpc"

// An Error is a JSON-RPC error object.
type Error = jsonrpc.Error

func failure(code int, format string, args ...any) *Error {
	return jsonrpc.Errorf(code, format, args...)
}

func invalid(format string, args ...any) *Error { return failure(jsonrpc.CodeInvalid, format, args...) }

func missing(param string) *Error { return failure(jsonrpc.CodeParams, "missing parameter: %s", param) }
