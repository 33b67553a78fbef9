// Verifies deliveries with the Go library of Standard Webhooks. Standard input: a JSON list of {secret, body, headers}. Standard
// output: for each, whether it is genuine, and whether it still is with one more space at its end.
package main

import (
	"encoding/json"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

type delivery struct {
	Secret  string            `json:"secret"`
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers"`
}

func main() {
	var deliveries []delivery
	if err := json.NewDecoder(os.Stdin).Decode(&deliveries); err != nil {
		panic(err)
	}
	verdicts := [][2]bool{}
	for _, each := range deliveries {
		webhook, err := standardwebhooks.NewWebhook(each.Secret)
		if err != nil {
			panic(err)
		}
		headers := http.Header{}
		for name, value := range each.Headers {
			headers.Set(name, value)
		}
		genuine := webhook.Verify([]byte(each.Body), headers) == nil
		changed := webhook.Verify([]byte(each.Body+" "), headers) == nil
		verdicts = append(verdicts, [2]bool{genuine, changed})
	}
	json.NewEncoder(os.Stdout).Encode(verdicts)
}
