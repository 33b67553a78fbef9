// A webhook receiver with the standard library only: verifies each delivery and prints what it did.
//
//	HALFKEY_WEBHOOK_SECRET=whsec_... go run examples/receivers/receiver.go
//
// During a rotation, give both secrets, separated by a comma.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	tolerance    = 5 * time.Minute
	bodyBytesMax = 1 << 20
	seenMax      = 10000
)

type event struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	CreatedAt time.Time       `json:"created_at"`
	Data      json.RawMessage `json:"data"`
}

type receiver struct {
	secrets []string

	// In production, use a table with a unique column. Write to it in the transaction that does the work.
	mu    sync.Mutex
	seen  map[string]bool
	order []string
}

func (r *receiver) isGenuine(header http.Header, body []byte) bool {
	timestamp := header.Get("X-Service-Timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || len(timestamp) > 12 {
		return false
	}
	age := time.Since(time.Unix(seconds, 0))
	if age > tolerance || age < -tolerance {
		return false
	}
	signature := header.Get("X-Service-Signature")
	given, err := hex.DecodeString(strings.TrimPrefix(signature, "sha256="))
	if err != nil || !strings.HasPrefix(signature, "sha256=") {
		return false
	}
	for _, secret := range r.secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(timestamp + "."))
		mac.Write(body)
		// Compares in constant time.
		if hmac.Equal(mac.Sum(nil), given) {
			return true
		}
	}
	return false
}

// isNew returns false for an event that was handled before.
func (r *receiver) isNew(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[id] {
		return false
	}
	r.seen[id] = true
	r.order = append(r.order, id)
	if len(r.order) > seenMax {
		delete(r.seen, r.order[0])
		r.order = r.order[1:]
	}
	return true
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	// The bytes as received: parsing and serializing them would change what was signed.
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, bodyBytesMax))
	if err != nil || !r.isGenuine(request.Header, body) {
		fmt.Println("refused: the signature does not match")
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		fmt.Println("refused: the body is not an event")
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	// Store the event before you answer: after a 2xx, Halfkey does not send it again. Do long work after the answer.
	if r.isNew(e.ID) {
		fmt.Printf("verified: %s %s %s\n", e.Type, e.ID, e.Data)
	} else {
		fmt.Printf("duplicate: %s %s\n", e.Type, e.ID)
	}
	w.WriteHeader(http.StatusNoContent)
}

func main() {
	given := os.Getenv("HALFKEY_WEBHOOK_SECRET")
	if given == "" {
		log.Fatal("Set HALFKEY_WEBHOOK_SECRET to the `secret` in the response that created the webhook.")
	}
	port := os.Getenv("PORT")
	if port == "" {
		port = "3000"
	}
	address := "127.0.0.1:" + port
	server := &http.Server{
		Addr:              address,
		Handler:           &receiver{secrets: strings.Split(given, ","), seen: map[string]bool{}},
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
	}
	fmt.Printf("Receiving on http://%s/hook\n", address)
	log.Fatal(server.ListenAndServe())
}
