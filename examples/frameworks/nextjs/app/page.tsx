import { connection } from 'next/server'
import { halfkey } from './halfkey'

export default async function Page() {
  // Renders at each request. Otherwise `next build` would call the API and keep its answer.
  await connection()
  const { data: users, total } = await halfkey().users.list({ pageSize: 10 })
  return (
    <main>
      <h1>Users: {total}</h1>
      <ul>
        {users.map((user) => (
          <li key={user.id}>{user.email ?? user.id}</li>
        ))}
      </ul>
    </main>
  )
}
